package clienttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/oapi-codegen/runtime" // what oapi-codegen makes imports it
)

// run runs a command and fails the test unless it ends well.
func run(t *testing.T, dir string, env []string, words ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// description returns what a daemon of the program serves at path.
func description(t *testing.T, program, path string) []byte {
	t.Helper()
	root := t.TempDir()
	state := filepath.Join(root, "state")
	var log bytes.Buffer
	c := exec.Command(program, "serve")
	c.Env, c.Stderr = append(os.Environ(), "HOME="+root, "XDG_STATE_HOME="+state), &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(state, "superloop/daemon/sock"))
	}}
	defer transport.CloseIdleConnections()
	for late := time.Now().Add(time.Minute); ; {
		res, err := (&http.Client{Transport: transport}).Get("http://superloop" + path)
		if err != nil { // it holds its lock a moment later
			if time.Now().After(late) {
				t.Fatalf("%v\n%s", err, log.String())
			}
			continue
		}
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s %v", res.Status, err)
		}
		return text
	}
}

// Two generators make clients of the description, in both versions of OpenAPI, which compile; by one of them every route is
// played.
func TestGenerated(t *testing.T) {
	program := filepath.Join(t.TempDir(), "superloop")
	for _, of := range []string{"superloop", "superloop-fleet"} {
		run(t, "../..", []string{"GOWORK=off", "GOFLAGS=-buildvcs=false"}, "go", "build", "-o", filepath.Join(filepath.Dir(program), of), "./cmd/"+of)
	}
	if err := errors.Join(os.RemoveAll("testdata/api"), os.MkdirAll("testdata/api/plain", 0o755), os.MkdirAll("testdata/api/plain30", 0o755)); err != nil {
		t.Fatal(err)
	}
	for file, path := range map[string]string{"testdata/api/api.json": "/api/v1/openapi.json", "testdata/api/api-3.0.json": "/api/v1/openapi-3.0.json"} {
		if err := os.WriteFile(file, description(t, program, path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// This command stands in docs/api.md.
	for dir, file := range map[string]string{"plain": "testdata/api/api.json", "plain30": "testdata/api/api-3.0.json"} {
		run(t, ".", nil, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", dir, "-o", "testdata/api/"+dir+"/api.go", file)
	}
	run(t, ".", nil, "go", "tool", "ogen", "--config", "ogen.yml", "--target", "testdata/api/ogen", "--package", "ogen", "testdata/api/api.json")
	run(t, ".", nil, "go", "vet", "-tags", "generated", "./...", "./testdata/api/plain", "./testdata/api/plain30")
	c := exec.CommandContext(t.Context(), "go", "test", "-tags", "generated", "-count=1", "-v", "./routes")
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), "SUPERLOOP="+program, "SUPERLOOP_FLEET="+program+"-fleet"), os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		t.Error(err)
	}
}
