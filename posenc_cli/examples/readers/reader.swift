// Compare your rotate with test vectors: name this main.swift, swiftc main.swift yours.swift && ./main pack
import Foundation

// Yours is func rotate(_ x: inout [Float], _ position: Int64): it rotates one vector in place.

let pack = CommandLine.arguments.count > 1 ? CommandLine.arguments[1] : "."

func values<T>(_ name: String, _ type: T.Type) -> [T] {
    guard let content = FileManager.default.contents(atPath: "\(pack)/\(name).npy") else {
        fputs("\(pack)/\(name).npy: cannot be read\n", stderr)
        exit(2)
    }
    let bytes = [UInt8](content)
    let start = 10 + Int(bytes[8]) + 256 * Int(bytes[9])  // an .npy: 10 bytes, its header, the values
    return Array(bytes[start...]).withUnsafeBytes { Array($0.bindMemory(to: type)) }
}

let positions = values("positions", Int64.self)
let x = values("x", Float.self), y = values("y", Float.self)
let tolerance = values("tolerance", Float.self)
let columns = x.count / positions.count
var (wrong, worst) = (0, 0.0)
for (row, position) in positions.enumerated() {
    var turned = Array(x[row * columns..<(row + 1) * columns])
    rotate(&turned, position)
    for column in 0..<columns {
        let i = row * columns + column
        let error = abs(Double(turned[column]) - Double(y[i])) / Double(tolerance[i])
        if error > worst { worst = error }
        if error <= 1 { continue }  // what is no number is wrong, too
        if wrong == 0 { print("row \(row) column \(column): \(turned[column]), not \(y[i])") }
        wrong += 1
    }
}
print("largest error \(worst) times the tolerance, \(wrong) of \(x.count) values wrong")
exit(wrong > 0 ? 1 : 0)
