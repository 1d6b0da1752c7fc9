package undo

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzManifest: whatever stands in the two files of a set, Restore touches nothing outside of the work tree, and the set
// can be listed and dropped.
func FuzzManifest(f *testing.F) {
	b := newBox(f)
	b.put("new.txt", "as it was kept")
	b.put("dir/file", "as it was kept")
	k := b.keep(Targets{Paths: []Target{{Path: "new.txt"}, {Path: "dir", Deleted: true}, {Path: "absent"}}})
	b.put("new.txt", "as the command left it")
	b.put("dir/file", "as the command left it")
	b.seal(k)
	s := b.store
	read := func(file string) []byte {
		data, err := os.ReadFile(s.path(k.ID, file))
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	// The id is another one in each process that fuzzes, and so has a fixed name in the inputs.
	const anyID = "20231114T221320-00000000"
	good, left := bytes.ReplaceAll(read(manifestFile), []byte(k.ID), []byte(anyID)), read(afterFile)
	for _, data := range [][]byte{good, []byte(strings.NewReplacer(`"new.txt"`, `"../new.txt"`, `"dir"`, `"dir/../../dir"`).Replace(string(good))),
		[]byte(strings.ReplaceAll(string(good), `"store":"`, `"store":"../`)), []byte(strings.ReplaceAll(string(good), `"size":`, `"size":-`))} {
		f.Add(data, left)
		f.Add(data[:len(data)/2], left)
		f.Add(data, left[:len(left)/2])
		f.Add(data, []byte("null"))
	}
	beside := filepath.Join(filepath.Dir(s.Repo), "new.txt")
	f.Fuzz(func(t *testing.T, data, left []byte) {
		data = bytes.ReplaceAll(data, []byte(anyID), []byte(k.ID))
		put := func(file string, data []byte) {
			if err := os.WriteFile(s.path(k.ID, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put(afterFile, left)
		testkit.Decoder[*manifest]{
			Decode: func(data []byte) (*manifest, error) { put(manifestFile, data); return s.load(k.ID) },
			Encode: func(m *manifest) ([]byte, error) { return json.Marshal(m) },
		}.Check(t, data)
		put(manifestFile, data)
		_, bad := s.load(k.ID)
		if sets, err := s.List(); len(sets) == 0 && bad == nil || err != nil && bad == nil {
			t.Fatalf("%v, %v", sets, err)
		}
		var m manifest
		if ok, err := readJSON(s.path(k.ID, manifestFile), &m); !ok || err != nil || m.Commit != "" {
			return // git restores what a commit holds
		}
		for _, path := range m.Trees {
			if strings.Contains(string(path.Path), ".git") {
				return // the work tree's own
			}
		}
		_, _ = s.Restore(t.Context(), k.ID, Options{Force: true})
		if _, err := os.Lstat(beside); err == nil {
			t.Fatal("a file beside the work tree was written")
		}
		for _, dir := range []string{filepath.Dir(s.Repo), filepath.Dir(s.Dir)} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 2 {
				t.Fatalf("%s has %v, %v", dir, entries, err)
			}
		}
	})
}
