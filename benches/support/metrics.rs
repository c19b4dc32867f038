//! The metrics of a process, read from its admin address.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The sum of all samples whose lines begin like this.
pub fn sum(metrics: &str, name: &str) -> f64 {
    let values = metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit(' ').next());
    values.filter_map(|value| value.parse::<f64>().ok()).sum()
}

/// All metrics as text; none while the process is not listening.
pub fn metrics(admin: u16) -> String {
    let mut text = String::new();
    // It may not be listening yet.
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", admin)) {
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_string(&mut text).unwrap();
    }
    text
}

/// A port that no process listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
