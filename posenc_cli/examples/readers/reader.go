// Compare your rotate with test vectors: go run reader.go yours.go pack
package main
import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// Yours is func rotate(x []float32, position int64), in package main: it rotates one vector in place.

func read[T float32 | int64](pack, name string, size int) []T {
	content, err := os.ReadFile(pack + "/" + name + ".npy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	content = content[10+int(binary.LittleEndian.Uint16(content[8:])):] // after 10 bytes and a header
	values := make([]T, len(content)/size)
	binary.Read(bytes.NewReader(content), binary.LittleEndian, values)
	return values
}

func main() {
	pack := append(os.Args, ".")[1]
	positions, x := read[int64](pack, "positions", 8), read[float32](pack, "x", 4)
	y, tolerance := read[float32](pack, "y", 4), read[float32](pack, "tolerance", 4)
	columns, wrong, worst := len(x)/len(positions), 0, 0.0
	for row, position := range positions {
		rotate(x[row*columns:(row+1)*columns], position)
	}
	for i := range x {
		off := math.Abs(float64(x[i])-float64(y[i])) / float64(tolerance[i])
		if off > worst {
			worst = off
		}
		if !(off <= 1) { // what is no number is wrong, too
			if wrong++; wrong == 1 {
				fmt.Printf("row %d column %d: %v, not %v\n", i/columns, i%columns, x[i], y[i])
			}
		}
	}
	fmt.Printf("largest error %.3g times the tolerance, %d of %d values wrong\n", worst, wrong, len(x))
	os.Exit(min(wrong, 1))
}
