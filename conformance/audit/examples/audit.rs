//! `cargo run -p floe-audit --example audit -- TABLE…`: prints the report of each table.
fn main() {
    for t in std::env::args().skip(1) {
        let at = std::time::Instant::now();
        match floe_audit::audit(std::path::Path::new(&t), &floe_audit::Options::default()) {
            Ok(r) => print!("{}", r.text()),
            Err(e) => println!("{t}: {e}"),
        }
        println!("{:?}", at.elapsed());
    }
}
