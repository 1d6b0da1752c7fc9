package temporal

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
)

// server is Temporal's server for try-outs as a process of its own, with the settings of superloop-fleet dev.
type server struct {
	t        testing.TB
	program  string
	port, db string
	more     []string
	cmd      *exec.Cmd
	client   client.Client
}

// newServer starts a server; more are settings of it. With db it keeps all in that file, else in memory.
func newServer(t testing.TB, payloads converter.DataConverter, program, db string, more ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: program, port: strconv.Itoa(l.Addr().(*net.TCPAddr).Port), db: db, more: more}
	_ = l.Close()
	s.start()
	t.Cleanup(s.kill)
	o := client.Options{HostPort: "127.0.0.1:" + s.port, DataConverter: payloads, FailureConverter: FailureConverter(payloads), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	if s.client, err = client.Dial(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// start starts the process and returns how long it took until the server answered.
func (s *server) start() time.Duration {
	s.t.Helper()
	argv := []string{"server", "start-dev", "--ip", "127.0.0.1", "--port", s.port, "--headless", "--log-level", "never"}
	if s.db != "" {
		argv = append(argv, "--db-filename", s.db)
	}
	for _, set := range append([]string{"history.transferProcessorMaxPollRPS=2000", "history.timerProcessorMaxPollRPS=2000", "history.visibilityProcessorMaxPollRPS=2000",
		"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"}, s.more...) {
		argv = append(argv, "--dynamic-config-value", set)
	}
	s.cmd = exec.Command(s.program, argv...)
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for {
		c, err := client.Dial(client.Options{HostPort: "127.0.0.1:" + s.port, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err == nil {
			_, err = c.CheckHealth(context.Background(), nil)
			c.Close()
		}
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-s.t.Context().Done():
			s.t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the process as a crash does.
func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}
