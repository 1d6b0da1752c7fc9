package take

import (
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzFound: whatever gh or glab prints, the list of pull requests or a short error comes of it.
func FuzzFound(f *testing.F) {
	testkit.Seed(f, []byte(`[]`), []byte(`[{"number":7,"url":"https://github.com/ann/project/pull/7"}]`), []byte(`[{"iid":3,"web_url":"https://gitlab.com/ann/project/-/merge_requests/3"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Forge{Program: programGH}.Found(data)
		if err != nil {
			testkit.Plain(t, err.Error())
		}
	})
}
