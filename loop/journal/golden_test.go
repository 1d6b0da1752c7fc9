package journal

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"
)

// goldenEvents are those of testdata/golden.jsonl. The file was written once and
// is never written again: whatever becomes of this package, it must read that
// file, and a journal that was begun by it must go on.
var goldenEvents = []Event{
	{Timestamp: time.Date(2026, 11, 21, 1, 50, 14, 0, time.UTC), Event: "loop_start", LoopID: "checkout", RunID: "20261121T015014.000Z-5eed0001",
		Fields: json.RawMessage(`{"pid":30600,"spec_file":".superloop/specs/checkout.md","version":"1.0.0"}`)},
	{Timestamp: time.Date(2026, 11, 21, 1, 50, 14, 7_999_999, time.UTC), Event: "iteration_start", LoopID: "checkout", RunID: "20261121T015014.000Z-5eed0001", Iteration: 1},
	{Timestamp: time.Date(2026, 11, 21, 1, 52, 31, 250_000_000, time.UTC), Event: "role_end", LoopID: "checkout", RunID: "20261121T015014.000Z-5eed0001", Iteration: 1,
		Fields: json.RawMessage(`{"role":"implementer","exit_code":0,"duration_ms":137243,"usage":{"input_tokens":1200,"output_tokens":345},"cost_usd":0.0421,"session_id":null}`)},
	{Timestamp: time.Date(2026, 11, 21, 1, 52, 40, 999_000_000, time.UTC), Event: "recovery_proposed", LoopID: "checkout", RunID: "20261121T015014.000Z-5eed0001", Iteration: 1,
		Fields: json.RawMessage("{\n  \"source\": \"tester\",\n  \"command\": \"rm -rf node_modules && bun install\",\n  \"evidence\": [\"err: \\u001b[31m\\\"x\\\" \\u00e9\", \"<&>\", \"\xe2\x80\xa8 \xff\"]\n}")},
	{Timestamp: time.Date(2026, 11, 21, 3, 52, 41, 1_000_000, time.FixedZone("", 7200)), Event: "recovery_executed", LoopID: "check\"out\\\n\x01\x7f", RunID: "r\xffn", Iteration: 2147483647,
		Fields: json.RawMessage(`{"exit_code":1,"output_tail":",\"prev\":\"\",\"hash\":\"","nested":{"seq":0,"prev":"","hash":"x"}}`)},
	{Timestamp: time.Date(1, 1, 1, 0, 0, 0, 1_000_000, time.UTC), Event: "é", Fields: json.RawMessage(`{}`)},
	{Timestamp: time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC), Event: "loop_stop", LoopID: "checkout", RunID: "20261121T015014.000Z-5eed0001", Iteration: 1,
		Fields: json.RawMessage(`{"status":"stuck","reason":"no_code_changes"}`)},
}

func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "golden.jsonl")
	rep, err := Verify(path)
	const last = "f4290a415c628758aaded462cae3b33a399b788840e0e88901fa5d444a8c685a"
	if err != nil || rep.FirstBad != nil || rep.Events != int64(len(goldenEvents)) || rep.LastHash != last {
		t.Fatalf("%+v, %v, %v", rep, rep.FirstBad, err)
	}
	var written, again []byte
	prev := ""
	for i, ev := range goldenEvents {
		ev.Seq, ev.Prev = int64(i)+1, prev
		if written, err = AppendLine(written, ev); err != nil {
			t.Fatal(err)
		}
		prev = lineHash(written)
	}
	golden := string(mustRead(t, path))
	if string(written) != golden {
		t.Errorf("the writer has changed:\n%s, was\n%s", written, golden)
	}
	for i, ev := range all(t, path, 0) {
		want := goldenEvents[i]
		want.settle(place{seq: int64(i) + 1, hash: ev.Hash}, ev.Prev)
		if ev.Event != want.Event || !ev.Timestamp.Equal(want.Timestamp) || ev.LoopID != want.LoopID || ev.RunID != want.RunID || ev.Iteration != want.Iteration {
			t.Errorf("event %d is read as %+v", i+1, ev)
		}
		if again, err = AppendLine(again, ev); err != nil {
			t.Fatal(err)
		}
	}
	if string(again) != golden {
		t.Error("what is read is not what was written")
	}
}
