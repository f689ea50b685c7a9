//! A fake Messages API on loopback, for one run of a client.
//!
//! It answers every conversation with the same short text, as a stream or in one piece, and records the requests: the
//! `messages` of the main request are what the client made of the session file. It never calls a tool, so a client
//! has nothing to do on the machine. It validates nothing.
//!
//! Each connection carries one request; no more of HTTP/1.1 is needed here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::compare::parse;

/// The maximum number of requests in one run. A resume takes one request, rarely three.
const MAX_REQUESTS: usize = 24;
/// The maximum size of a request: more than any session that a client would send.
const MAX_BYTES: u64 = 256 << 20;
const ANSWER: &str = "Understood, and nothing is left to do.";

/// A running server. It stops when it is dropped.
pub(crate) struct ApiServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ServerState {
    requests: Mutex<Vec<ApiRequest>>,
    ended: AtomicBool,
}

/// A request of a client. The body is null if there was none, or if it was not JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl ApiServer {
    /// Starts to listen on a free port of loopback.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(ServerState::default());
        let shared = Arc::clone(&state);
        let listener = thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { continue };
                // If a client disconnects early, its request is recorded anyway.
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Ok(Self { address, state, listener: Some(listener) })
    }

    /// Returns the base URL for a client.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<ApiRequest> {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // The listener is blocked in `accept`; this connection wakes it.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(listener) = self.listener.take().filter(|_| woken) {
            let _ = listener.join();
        }
    }
}

/// Finds the request that carries the conversation: it offers tools and contains the prompt.
///
/// Requests for titles, summaries and token counts have no tools. If a client changed the prompt, the first request
/// with tools is returned.
pub(crate) fn main_request<'a>(requests: &'a [ApiRequest], prompt: &str) -> Option<&'a ApiRequest> {
    let has_tools = |request: &&ApiRequest| {
        let tools = request.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        request.path.starts_with("/v1/messages")
            && !request.path.contains("count_tokens")
            && tools.iter().any(|tool| tool["name"] == "Bash" || tool["name"] == "Read")
    };
    let has_prompt = |message: &Value| match &message["content"] {
        Value::String(text) => text.contains(prompt),
        Value::Array(blocks) => {
            blocks.iter().any(|block| block["text"].as_str().is_some_and(|text| text.contains(prompt)))
        }
        _ => false,
    };
    let mut mains = requests.iter().filter(has_tools);
    let first = mains.clone().next();
    mains
        .find(|request| {
            request.body["messages"].as_array().is_some_and(|messages| messages.iter().any(has_prompt))
        })
        .or(first)
}

fn serve(stream: &TcpStream, state: &ServerState) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let Some(request) = read_request(&mut BufReader::new(stream))? else { return Ok(()) };
    let reply = {
        let mut requests = state.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = if requests.len() < MAX_REQUESTS {
            answer(&request)
        } else {
            HttpReply::error(400, "more requests than one run needs")
        };
        // One request above the limit is enough to show that a client did not stop.
        if requests.len() <= MAX_REQUESTS {
            requests.push(request);
        }
        reply
    };
    reply.write(stream)
}

/// Reads a request; `None` if the connection was closed without one.
fn read_request(input: &mut impl BufRead) -> io::Result<Option<ApiRequest>> {
    let Some(start) = read_line(input)? else { return Ok(None) };
    let mut words = start.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(invalid("the request has no path"));
    };
    let mut length = 0;
    loop {
        let line = read_line(input)?.ok_or_else(|| invalid("the head is cut short"))?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| invalid("the length is not a number"))?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(invalid("a body of unknown length"));
        }
    }
    if length > MAX_BYTES {
        return Err(invalid("the body is too long"));
    }
    let mut body = Vec::new();
    if input.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(invalid("the body is cut short"));
    }
    let body = parse(&body).unwrap_or_default();
    Ok(Some(ApiRequest { method: method.to_owned(), path: path.to_owned(), body }))
}

/// Reads a header line without its line break; `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    const MAX_LINE_BYTES: u64 = 64 << 10;
    let mut line = Vec::new();
    input.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(invalid("a line of the head is too long or cut short"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

struct HttpReply {
    status: u16,
    kind: &'static str,
    body: String,
}

impl HttpReply {
    fn json(status: u16, body: &Value) -> Self {
        Self { status, kind: "application/json", body: body.to_string() }
    }

    fn error(status: u16, message: &str) -> Self {
        let kind = if status == 404 { "not_found_error" } else { "invalid_request_error" };
        Self::json(status, &json!({ "type": "error", "error": { "type": kind, "message": message } }))
    }

    fn write(&self, mut output: impl Write) -> io::Result<()> {
        let reason = if self.status == 200 { "OK" } else { "Refused" };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        output.write_all(head.as_bytes())?;
        output.write_all(self.body.as_bytes())?;
        output.flush()
    }
}

fn answer(request: &ApiRequest) -> HttpReply {
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        // Clients first probe whether the server is up.
        ("HEAD", _) => HttpReply { status: 200, kind: "text/plain", body: String::new() },
        ("POST", "/v1/messages/count_tokens") => HttpReply::json(200, &json!({ "input_tokens": 1000 })),
        ("POST", "/v1/messages") => message(&request.body),
        _ => HttpReply::error(404, "only messages are answered here"),
    }
}

fn message(request: &Value) -> HttpReply {
    let usage = json!({ "input_tokens": 1000, "output_tokens": 10 });
    let mut message = json!({
        "id": "msg_real_client", "type": "message", "role": "assistant", "model": request["model"],
        "content": [{ "type": "text", "text": ANSWER }],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage,
    });
    if request["stream"] != true {
        return HttpReply::json(200, &message);
    }
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": ANSWER } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ];
    let body = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()));
    HttpReply { status: 200, kind: "text/event-stream", body: body.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> String {
        match read_request(&mut bytes.as_bytes()) {
            Ok(Some(request)) => format!("{} {} {}", request.method, request.path, request.body),
            Ok(None) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn valid_requests_are_parsed() {
        let post =
            "POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nCONTENT-length:  7\r\n\r\n{\"a\":1}rest";
        assert_eq!(read(post), "POST /v1/messages?beta=true {\"a\":1}");
        assert_eq!(read("HEAD / HTTP/1.1\n\n"), "HEAD / null");
        assert_eq!(read("POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"), "POST / null");
    }

    #[test]
    fn invalid_requests_are_errors() {
        assert_eq!(read(""), "nothing");
        assert_eq!(read("GET\r\n\r\n"), "the request has no path");
        assert_eq!(read("GET / HTTP/1.1\r\nHost: x\r\n"), "the head is cut short");
        assert_eq!(read("GET / HTTP/1.1\r\nHost"), "a line of the head is too long or cut short");
        assert_eq!(read("POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n{}"), "the body is cut short");
        assert_eq!(read("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"), "the length is not a number");
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
        assert_eq!(read(&long), "a line of the head is too long or cut short");
    }

    fn ask(api: &ApiServer, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(api.address).expect("server listens");
        write!(stream, "{head} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .expect("server reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("server answers");
        reply
    }

    #[test]
    fn conversations_are_answered_and_recorded() {
        let api = ApiServer::start().expect("loopback has a free port");
        assert!(ask(&api, "HEAD /", "").starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(ask(&api, "GET /api/anything", "").starts_with("HTTP/1.1 404"));
        assert!(ask(&api, "POST /v1/messages/count_tokens", "{}").ends_with("{\"input_tokens\":1000}"));
        let plain = ask(&api, "POST /v1/messages", r#"{"model":"m","messages":[]}"#);
        assert!(plain.contains(r#""model":"m""#) && plain.contains(ANSWER) && plain.contains("end_turn"));
        let stream = ask(&api, "POST /v1/messages?beta=true", r#"{"model":"m","stream":true}"#);
        assert!(stream.contains("\r\n\r\nevent: message_start\ndata: {") && stream.contains(ANSWER));
        assert!(stream.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
        assert_eq!(api.requests().len(), 5);
    }

    #[test]
    fn client_over_the_request_limit_is_refused() {
        let api = ApiServer::start().expect("loopback has a free port");
        let replies: Vec<_> = (0..MAX_REQUESTS + 3).map(|_| ask(&api, "POST /v1/messages", "{}")).collect();
        assert!(replies[MAX_REQUESTS - 1].starts_with("HTTP/1.1 200"));
        assert!(replies[MAX_REQUESTS..].iter().all(|reply| reply.starts_with("HTTP/1.1 400")));
        assert_eq!(api.requests().len(), MAX_REQUESTS + 1);
    }

    #[test]
    fn main_request_has_tools_and_the_prompt() {
        let request =
            |path: &str, body| ApiRequest { method: "POST".to_owned(), path: path.to_owned(), body };
        let tools = json!([{ "name": "Bash" }]);
        let requests = [
            request(
                "/v1/messages",
                json!({ "messages": [{ "role": "user", "content": "title of PROMPT" }] }),
            ),
            request("/v1/messages/count_tokens", json!({ "tools": tools, "messages": [] })),
            request("/v1/messages?a", json!({ "tools": tools, "messages": [{ "content": "warm up" }] })),
            request(
                "/v1/messages?b",
                json!({ "tools": tools, "messages": [{ "content": [{ "type": "text", "text": "a PROMPT" }] }] }),
            ),
        ];
        let found = |prompt| main_request(&requests, prompt).map(|request| request.path.as_str());
        assert_eq!(found("PROMPT"), Some("/v1/messages?b"));
        assert_eq!(found("another"), Some("/v1/messages?a"));
        assert_eq!(main_request(&requests[..2], "PROMPT"), None);
    }
}
