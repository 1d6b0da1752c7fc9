package webtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fetched returns a file of a package that npm fetches for the tests, and keeps for the next ones.
func fetched(t *testing.T, name, version, file string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "superloop-ci", "webtest", name+"-"+version)
	file = filepath.Join(dir, "node_modules", name, file)
	if exists(file) {
		return file
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", dir, name+"@"+version).CombinedOutput(); err != nil {
		t.Skipf("npm cannot fetch %s: %v\n%s", name, err, out)
	}
	return file
}

// The modules of the page are typed by their comments: the compiler of TypeScript finds nothing in them.
func TestTypes(t *testing.T) {
	tsc := fetched(t, "typescript", "5.9.2", "bin/tsc")
	files, err := filepath.Glob("../page/web/*.js")
	if err != nil || len(files) < 10 {
		t.Fatal(err, files)
	}
	args := append([]string{tsc, "--allowJs", "--checkJs", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2024", "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2024,dom,dom.iterable"}, files...)
	if out, err := exec.Command("node", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
