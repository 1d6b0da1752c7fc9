package text

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzDecode: whatever Decode refuses, it says so in one short line.
func FuzzDecode(f *testing.F) {
	long := strings.Repeat("1", 3000)
	testkit.Seed(f, []byte(`{"N":1,"T":true,"S":["a"],"At":"2026-11-23T00:00:00Z","A":{"x":[1,{}]}}`), []byte(`{"n":`+long+`,"t":"`+strings.Repeat("\u202e", 3000)+`"}`),
		[]byte(`{"At":"2026-11`+strings.Repeat(":", 3000)+`"}`), []byte(`{"S":{"`+long+`":1}}`))
	type form struct {
		N  int
		T  bool
		S  []string
		At time.Time
		A  any
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[form]{Decode: func(data []byte) (v form, err error) {
			err = Decode(data, &v)
			return v, err
		}}.Check(t, data)
	})
}

func TestErrorsOfDecodeAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", 100_000)
	for name, text := range map[string]string{
		"a number": `{"n":` + long + `}`, "a time": `{"at":"` + long + `"}`, "a control character": `{"at":"\u001b[2J\u009b2J\u007f"}`, "no JSON": "\x1b[2J",
	} {
		var v struct {
			N  int
			At time.Time
		}
		err := Decode([]byte(text), &v)
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		if said := err.Error(); len(said) > 4*maxReason || strings.ContainsAny(said, "\x1b\x7f\u009b\n") {
			t.Errorf("%s: %q", name, said)
		}
	}
	var wrong *json.UnmarshalTypeError
	if err := Decode([]byte(`{"n":"x"}`), &struct{ N int }{}); !errors.As(err, &wrong) {
		t.Errorf("the cause is lost: %v", err)
	}
	if err := Reason(nil); err != nil {
		t.Errorf("an error of nothing: %v", err)
	}
}
