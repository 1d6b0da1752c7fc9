"""A server that misbehaves: serve.py PORT MODE [BODY]. MODE is an HTTP status, or
reset, hang, cut, html, tls, expired (tls with an old certificate)."""
import http.server, socket, ssl, struct, subprocess, sys, time

port, mode = int(sys.argv[1]), sys.argv[2]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a):
        pass

    def answer(self):
        if mode == "hang":
            time.sleep(600)
        if mode == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        if mode in ("cut", "html", "tls", "expired"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if mode == "html" else "application/octet-stream")
            self.send_header("Content-Length", "100000" if mode == "cut" else "38")
            self.end_headers()
            self.wfile.write(b"<html><body>Please log in</body></html>"[:38])
            self.wfile.flush()
            if mode == "cut":
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(int(mode))
        if mode == "429":
            self.send_header("Retry-After", "1")
        if mode == "401":
            self.send_header("WWW-Authenticate", 'Basic realm="registry"')
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_PUT = do_HEAD = answer


if mode in ("tls", "expired"):
    then = ["faketime", "-f", "-400d"] if mode == "expired" else []
    subprocess.run(then + ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj", "/CN=localhost",
                    "-keyout", f"/tmp/serve-{port}.key", "-out", f"/tmp/serve-{port}.crt"], check=True, capture_output=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if mode in ("tls", "expired"):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(f"/tmp/serve-{port}.crt", f"/tmp/serve-{port}.key")
    server.socket = c.wrap_socket(server.socket, server_side=True)
server.serve_forever()
