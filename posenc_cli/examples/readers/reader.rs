// Compare your rotate with test vectors: rustc reader.rs && ./reader pack
use std::convert::TryInto;

mod rotate; // rotate.rs, yours: pub fn rotate(x: &mut [f32], position: i64) rotates one vector

fn values(pack: &str, name: &str) -> Vec<u8> {
    let path = format!("{pack}/{name}.npy");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        eprintln!("{path}: {error}");
        std::process::exit(2)
    });
    let start = 10 + bytes[8] as usize + 256 * bytes[9] as usize; // 10 bytes, the header
    bytes[start..].to_vec()
}

fn floats(pack: &str, name: &str) -> Vec<f32> {
    let bytes = values(pack, name);
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn main() {
    let pack = std::env::args().nth(1).unwrap_or(".".to_string());
    let positions = values(&pack, "positions");
    let (mut x, y, tolerance) = (floats(&pack, "x"), floats(&pack, "y"), floats(&pack, "tolerance"));
    let columns = x.len() / (positions.len() / 8);
    for (row, eight) in x.chunks_exact_mut(columns).zip(positions.chunks_exact(8)) {
        rotate::rotate(row, i64::from_le_bytes(eight.try_into().unwrap()));
    }
    let error = |i: usize| (x[i] as f64 - y[i] as f64).abs() / tolerance[i] as f64;
    let worst = (0..x.len()).map(error).fold(0.0, f64::max);
    let wrong: Vec<usize> = (0..x.len()).filter(|&i| !(error(i) <= 1.0)).collect();
    if let Some(&i) = wrong.first() {
        println!("row {} column {}: {}, not {}", i / columns, i % columns, x[i], y[i]);
    }
    print!("largest error {worst:.3} times the tolerance, ");
    println!("{} of {} values wrong", wrong.len(), x.len());
    std::process::exit(!wrong.is_empty() as i32);
}
