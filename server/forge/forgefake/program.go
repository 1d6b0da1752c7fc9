package forgefake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/server/forge"
)

// Installed reports whether a program is to be had.
func Installed(program string) bool {
	_, err := proc.LookPath(program, []string{"PATH=" + os.Getenv("PATH")}) // go test looks which variables a result depends on
	return err == nil
}

// Program returns a client that asks the server by gh or glab, which is Installed.
func (s *Server) Program(t testing.TB, program string) forge.Client {
	t.Helper()
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	if err := durable.OS().WriteFile("files", cert, s.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	return forge.New(s.Forge(program), append(os.Environ(), "SSL_CERT_FILE="+cert, "GH_CONFIG_DIR="+filepath.Join(dir, "gh"), "GLAB_CONFIG_DIR="+filepath.Join(dir, "glab"),
		"GH_ENTERPRISE_TOKEN=of-the-test", "GITLAB_TOKEN=of-the-test"), dir)
}
