package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
)

// parts makes what packages hold beside the program: dir/superloop, which was built for this machine, prints its manual
// pages and completion scripts; the licences are those of the modules that are linked into it.
func parts(disk durable.Disk, dir string) error {
	program, err := filepath.Abs(filepath.Join(dir, "superloop"))
	if err != nil {
		return err
	}
	verbs, err := output(program, "__complete", "verbs")
	if err != nil {
		return err
	}
	for _, verb := range append([]string{""}, strings.Fields(string(verbs))...) {
		page, err := output(program, slices.DeleteFunc([]string{"help", "--man", verb}, func(s string) bool { return s == "" })...)
		if err != nil {
			return err
		}
		packed, err := packed(page)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix("superloop-"+verb, "-") + ".1.gz"
		if err := write(disk, filepath.Join(dir, "man", name), packed); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := output(program, "completion", shell)
		if err == nil {
			err = write(disk, filepath.Join(dir, "completion", "superloop."+shell), script)
		}
		if err != nil {
			return err
		}
	}
	text, err := licences()
	if err != nil {
		return err
	}
	if err := write(disk, filepath.Join(dir, "third-party-licences.txt"), text); err != nil {
		return err
	}
	said, err := output(program, "version", "--json")
	if err != nil {
		return err
	}
	var version struct{ Version, Date string }
	if err := json.Unmarshal(said, &version); err != nil {
		return fmt.Errorf("reading what superloop version --json says: %w", err)
	}
	return write(disk, filepath.Join(dir, "changelog.yaml"), fmt.Appendf(nil, changelog, version.Version, version.Date))
}

// changelog is what the formats of packages want of one. What users notice stands in CHANGELOG.md, by release.
const changelog = `- semver: %s
  date: %s
  packager: The superloop authors <superloop@users.noreply.github.com>
  deb: {urgency: medium, distributions: [unstable]}
  changes: [{note: "see /usr/share/doc/superloop/CHANGELOG.md"}]
`

// packed compresses a page. The result depends on the page alone: it holds no name and no time.
func packed(page []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(page); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences returns the licence texts of Go and of each module that is linked into superloop on any system that is released.
// A module without one is an error: superloop may not be given away with it.
func licences() ([]byte, error) {
	modules := map[string]string{} // path and version -> directory
	for _, system := range []string{"linux", "darwin"} {
		list, err := output("env", "GOOS="+system, "CGO_ENABLED=0", "go", "list", "-deps", "-tags", "urfave_cli_no_docs",
			"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/superloop")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(list)) {
			if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[module] = dir
			}
		}
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules["Go, its standard library and runtime"] = strings.TrimSpace(string(root))
	var b bytes.Buffer
	b.WriteString("superloop is linked with the following. Their licences ask to pass these texts on.\n")
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		entries, err := os.ReadDir(modules[module])
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(modules[module], e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), module, e.Name(), strings.TrimSpace(string(text)))
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence in %s; find out under which terms it may be passed on, or do without it", module, modules[module])
		}
	}
	return b.Bytes(), nil
}

// write makes a file that everybody may read, whatever the umask is.
func write(disk durable.Disk, name string, data []byte) error {
	if err := disk.MkdirAll("release-dir", filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return disk.WriteProjection("release-file", name, data, 0o644)
}
