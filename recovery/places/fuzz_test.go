package places

import (
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzPlaces: a list of places is refused with its line, or each entry has a name.
func FuzzPlaces(f *testing.F) {
	testkit.Seed(f, []byte("shell\n  with bash\n  holds ~/.bashrc\n  why it runs\n\n# more\ngit\n  hides $X/sock\n  pins npm: ~/.npmrc\n"), []byte(text[:2000]))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, ok := testkit.Decoder[[]Entry]{Decode: func(data []byte) ([]Entry, error) { return parse(string(data)) }}.Check(t, data)
		for _, e := range list {
			if ok && e.ID == "" {
				t.Fatalf("%+v", e)
			}
		}
	})
}
