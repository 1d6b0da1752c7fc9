package loop

import (
	"bytes"
	"encoding/json"
)

// Encode writes v as JSON that people can search: a command with && stays one
// with &&, which json.Marshal would write for web pages.
func Encode(v any) ([]byte, error) { return EncodeIndent(v, "") }

// EncodeIndent is Encode over several lines.
func EncodeIndent(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
