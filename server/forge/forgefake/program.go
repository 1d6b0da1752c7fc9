package forgefake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/server/forge"
)

// Program returns a client that asks the server by gh or glab. It skips the test if the program is not installed.
func (s *Server) Program(t testing.TB, program string) forge.Client {
	t.Helper()
	if _, err := proc.LookPath(program, os.Environ()); err != nil {
		t.Skipf("%s is not installed", program)
	}
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	if err := durable.OS().WriteFile("files", cert, s.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	return forge.New(s.Forge(program), append(os.Environ(), "SSL_CERT_FILE="+cert, "GH_CONFIG_DIR="+filepath.Join(dir, "gh"), "GLAB_CONFIG_DIR="+filepath.Join(dir, "glab"),
		"GH_ENTERPRISE_TOKEN=of-the-test", "GITLAB_TOKEN=of-the-test"), dir)
}
