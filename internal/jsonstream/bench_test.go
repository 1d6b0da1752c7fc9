package jsonstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// agentWants is about what an adapter wants of a stream.
func agentWants() (wants []Want) {
	for _, path := range strings.Fields(`type subtype session_id is_error result total_cost_usd error api_error_status terminal_reason
		num_turns duration_ms model message.id message.model message.role message.content.*.type message.content.*.text
		message.content.*.name message.content.*.input.command message.content.*.input.file_path message.content.*.is_error
		message.usage.input_tokens usage.input_tokens usage.output_tokens usage.cache_read_input_tokens
		usage.cache_creation_input_tokens modelUsage.*.costUSD modelUsage.*.inputTokens permission_denials.*.tool_name
		rate_limit_info.status rate_limit_info.resetsAt
		item.id item.type item.text item.command item.exit_code item.status thread_id event.type event.delta.text`) {
		wants = append(wants, Want{Path: path})
	}
	return wants
}

// small is what a reader by encoding/json decodes of each line.
type small struct {
	Type    string
	Subtype string
	Session string `json:"session_id"`
	Message struct {
		Content []struct {
			Type, Text, Name string
			Input            struct{ Command string }
		}
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	Item struct{ ID, Type, Text, Command, Status string }
	Cost float64 `json:"total_cost_usd"`
}

// prose is n bytes of what agents write and read: code and logs with quotes,
// tabs, line breaks, backslashes and some runes beyond ASCII, as JSON.
func prose(rng *rand.Rand, n int) string {
	words := []string{"func", "return", "the", "error:", "expected", `"fmt"`, "internal/proc/run.go:112:", "if", "err != nil {", "\n", "\n\t", "\n\t\t", "}", "0x7f", `C:\tmp`, "na\u00efve", "\u2026", "\u2713", "ok", "==", "--verbose", "tests", "<nil>", "a\x1b[0m", "passed", "in", "0.042s", `log.Printf("%s\n",`, "value)", "\r\n", "\U0001f680"}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(b.String()); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

const usage = `{"input_tokens":4,"cache_creation_input_tokens":1822,"cache_read_input_tokens":15401,"cache_creation":{"ephemeral_5m_input_tokens":1822,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}`

func claudeStream(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString(`{"type":"system","subtype":"init","cwd":"/work","session_id":"6e1b7a52-7c3e-4a31-9b5e-0d9c6f1d2a10","tools":["Task","Bash","Glob","Grep","Read","Edit","Write"],"mcp_servers":[],"model":"claude-sonnet-4-5","permissionMode":"acceptEdits","apiKeySource":"ANTHROPIC_API_KEY"}` + "\n")
	for b.Len() < size {
		long := 1000 + rng.IntN(19_000)
		switch rng.IntN(4) {
		case 0:
			fmt.Fprintf(&b, `{"type":"assistant","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":%s}],"stop_reason":null,"stop_sequence":null,"usage":%s},"parent_tool_use_id":null,"session_id":"6e1b7a52-7c3e-4a31-9b5e-0d9c6f1d2a10","uuid":"f2c1a9e0-58bb-4d0c-8e3d-1f2a3b4c5d6e"}`, prose(rng, 1000+long/8), usage)
		case 1:
			fmt.Fprintf(&b, `{"type":"assistant","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"Write","input":{"file_path":"/repo/a.go","content":%s}}],"stop_reason":null,"usage":%s},"parent_tool_use_id":null,"session_id":"6e1b7a52-7c3e-4a31-9b5e-0d9c6f1d2a10"}`, prose(rng, long), usage)
		default:
			fmt.Fprintf(&b, `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","type":"tool_result","content":%s,"is_error":false}]},"parent_tool_use_id":null,"session_id":"6e1b7a52-7c3e-4a31-9b5e-0d9c6f1d2a10","tool_use_result":{"stdout":%s,"stderr":"","interrupted":false,"isImage":false}}`, prose(rng, long), prose(rng, long/4))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func codexStream(size int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, `{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go test ./...'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`+"\n", n)
		fmt.Fprintf(&b, `{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go test ./...'","aggregated_output":%s,"exit_code":0,"status":"completed"}}`+"\n", n, prose(rng, 2000+rng.IntN(200_000)))
	}
	return b.Bytes()
}

func longStream(key string, size int) []byte {
	rng := rand.New(rand.NewPCG(5, 6))
	return fmt.Appendf(nil, `{"type":"assistant","message":{"content":[{"type":"text",%q:%s}]}}`+"\n", key, prose(rng, size))
}

func tinyStream(size int) []byte {
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}},"session_id":"6e1b7a52-7c3e-4a31-9b5e-0d9c6f1d2a10","parent_tool_use_id":null}`+"\n", n%100)
	}
	return b.Bytes()
}

// nestedStream is all structure, none of which is wanted: the worst case.
func nestedStream(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"x","tree":[0`)
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, `,{"id":%d,"ok":true,"at":[%d,%d.5],"name":"n%d","sub":{"a":null,"b":{}}}`, n, n%7, n%13, n%10)
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// BenchmarkReader measures streams in pieces of 64 KiB, as a pipe gives them.
// xcount: how many times as long as counting line breaks; xjson: how many times
// as fast as encoding/json, which decodes a few fields of each line.
func BenchmarkReader(b *testing.B) {
	shape := MustShape(agentWants()...)
	for _, c := range []struct {
		name   string
		stream []byte
	}{
		{"claude", claudeStream(4 << 20)},
		{"codex", codexStream(4 << 20)},
		{"long-skipped", longStream("other", 10<<20)},
		{"long-kept", longStream("text", 10<<20)},
		{"tiny", tinyStream(1 << 20)},
		{"nested", nestedStream(1 << 20)},
	} {
		b.Run(c.name, func(b *testing.B) {
			lines := 0
			r := shape.NewReader(func(l *Line) {
				if l.Kind != Object {
					b.Fatal(show(l))
				}
				lines++
			})
			b.SetBytes(int64(len(c.stream)))
			b.ReportAllocs()
			for b.Loop() {
				for p := c.stream; len(p) > 0; {
					n := min(len(p), 64<<10)
					r.Write(p[:n])
					p = p[n:]
				}
			}
			own := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(own)/float64(pace(func() { bytes.Count(c.stream, []byte{'\n'}) })), "xcount")
			b.ReportMetric(float64(pace(func() {
				for line := range bytes.SplitSeq(bytes.TrimSuffix(c.stream, []byte{'\n'}), []byte{'\n'}) {
					var v small
					if err := json.Unmarshal(line, &v); err != nil {
						b.Fatal(err)
					}
				}
			}))/float64(own), "xjson")
		})
	}
}

// pace is how long f takes.
func pace(f func()) time.Duration {
	n, begin := 0, time.Now()
	for time.Since(begin) < 50*time.Millisecond {
		f()
		n++
	}
	return time.Since(begin) / time.Duration(n)
}
