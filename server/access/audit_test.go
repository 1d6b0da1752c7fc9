package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	l, err := OpenLog(durable.OS(), state)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := secret("slt_", 32)
	for i := range 5 {
		line := Line{Channel: "tcp", Method: "POST", Path: "/x/" + plain + "\x1b[2J", Status: 200 + i, Verdict: Done, Detail: strings.Repeat("y", 1000)}
		if err := l.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	onDisk(t, state, plain, "\x1b", strings.Repeat("y", 400))

	// A kill in the middle of a line costs this line.
	f, err := os.OpenFile(AuditFile(state), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"seq": 6, "at`)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(durable.OS(), state); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(Line{Method: "GET", Status: 403, Verdict: Refused}); err != nil {
		t.Fatal(err)
	}
	var seqs []int64
	for before := int64(0); ; {
		page, err := l.Page(before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range page {
			seqs = append(seqs, line.Seq)
			before = line.Seq
		}
		if len(page) < 2 {
			break
		}
	}
	if len(seqs) != 6 || seqs[0] != 6 || seqs[5] != 1 {
		t.Errorf("the pages hold %v", seqs)
	}
}

// A long record is set aside, and its pages go on in the older file.
func TestAuditRotates(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	l, err := OpenLog(durable.OS(), state)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(Line{Status: 201}); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(AuditFile(state), maxLog+1); err != nil { // somebody else has written to it
		t.Fatal(err)
	}
	for i := range 3 {
		if err := l.Add(Line{Status: 202 + i}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(state, "daemon", "audit.1.jsonl")); err != nil {
		t.Error(err)
	}
	page, err := l.Page(0, 10)
	if err != nil || len(page) != 4 || page[0].Status != 204 || page[3].Status != 201 || page[0].Seq != 4 {
		t.Errorf("%+v %v", page, err)
	}
	if info, err := os.Stat(AuditFile(state)); err != nil || info.Size() > 1000 {
		t.Errorf("%v %v", info, err)
	}
}

// Who is refused again and again cannot fill the record, and each refusal is accounted for.
func TestAuditIsNotFlooded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := OpenLog(durable.OS(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		const n = 5000
		for i := range n {
			for _, line := range []Line{{Method: "POST", Path: fmt.Sprint("/", i), PIDs: []int{i}, Exe: "/bin/curl", Status: 403, Verdict: Refused, Reason: "forbidden-agent"}, {Method: "POST", Exe: "/bin/other", Status: 403, Verdict: Refused, Reason: "scope"}} {
				if err := l.Add(line); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Add(Line{Method: "POST", Exe: "/bin/curl", Status: 200, Verdict: Done}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(alikeFor + time.Second)
		synctest.Wait()
		page, err := l.Page(0, 1000)
		if err != nil || len(page) > 80 {
			t.Errorf("%d lines, %v", len(page), err)
		}
		sum := map[string]int{}
		for _, line := range page {
			sum[line.Exe+line.Verdict] += max(1, line.Count)
		}
		if sum["/bin/curlrefused"] != n || sum["/bin/otherrefused"] != n || sum["/bin/curldone"] != 1 {
			t.Errorf("%v", sum)
		}
	})
}

// FuzzAudit: whatever lies in the record, lines come out in the order of their numbers' places, and none is made up.
func FuzzAudit(f *testing.F) {
	testkit.Seed(f, []byte(`{"seq":1,"method":"GET","path":"/","status":403,"verdict":"refused"}`+"\n"+`{"seq":2,"pids":[1]}`+"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[[]Line]{
			Decode: func(data []byte) ([]Line, error) { return tailOf(data, 0, 10), nil },
			Encode: func(lines []Line) (out []byte, err error) {
				for i := len(lines) - 1; i >= 0; i-- {
					line, err := json.Marshal(lines[i])
					if err != nil {
						return nil, err
					}
					out = append(append(out, line...), '\n')
				}
				return out, nil
			},
		}.Check(t, data)
	})
}
