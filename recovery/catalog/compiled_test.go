package catalog

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"testing"
	"testing/fstest"
)

// TestCompiledIsTheData: what is read from the compiled forms is what the YAML files say,
// with the examples and without them.
func TestCompiledIsTheData(t *testing.T) {
	t.Parallel()
	files, err := embeddedFiles(data)
	if err != nil {
		t.Fatal(err)
	}
	want, ps := parseEmbedded(data)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	current := func() bool {
		b := readCompiled(compiledForm, files)
		return b != nil && b.remember(examplesForm, files)
	}
	if *update && !current() {
		if compiledForm, examplesForm, err = want.compile(files); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile("compiled.gob", compiledForm, 0o644), os.WriteFile("examples.gob", examplesForm, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if !current() {
		t.Fatal("the compiled form is not that of the files under data; type: go generate ./recovery/catalog ./recovery/classify")
	}
	got := readCompiled(compiledForm, files)
	got.remember(examplesForm, files)
	same(t, "with examples", got, want)
	for h := range allHandlers(want.handlers, want.recipes) {
		h.Examples, h.CounterExamples = nil, nil
	}
	same(t, "without examples", readCompiled(compiledForm, files), want)
}

func same(t *testing.T, which string, got, want *builder) {
	t.Helper()
	for name, pair := range map[string][2]any{
		"categories": {got.categories, want.categories}, "chains": {got.chains, want.chains}, "handlers": {got.handlers, want.handlers},
		"recipes": {got.recipes, want.recipes}, "projects": {got.projects, want.projects}, "managers": {got.managers, want.managers}, "names": {got.names, want.names},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s, the %s of the compiled form are not those of the files", which, name)
		}
	}
}

// TestCompiledOfOtherFiles: after an edit the compiled form is not taken any more.
func TestCompiledOfOtherFiles(t *testing.T) {
	t.Parallel()
	files, err := embeddedFiles(data)
	if err != nil {
		t.Fatal(err)
	}
	edited := fstest.MapFS{}
	for _, f := range files {
		edited[f.path] = &fstest.MapFile{Data: f.text, Mode: fs.FileMode(0o644)}
	}
	if all, err := embeddedFiles(edited); err != nil || readCompiled(compiledForm, all) == nil {
		t.Fatalf("the same files are others: %v", err)
	}
	text := append([]byte(nil), files[3].text...)
	text[len(text)/2] ^= 1
	edited[files[3].path].Data = text
	if all, err := embeddedFiles(edited); err != nil || readCompiled(compiledForm, all) != nil {
		t.Errorf("a form of other files is taken: %v", err)
	}
	if readCompiled(compiledForm[:len(compiledForm)/2], files) != nil {
		t.Error("half a form is taken")
	}
	b := readCompiled(compiledForm, files)
	if all, err := embeddedFiles(edited); err != nil || b.remember(examplesForm, all) || b.remember(examplesForm[:len(examplesForm)/2], files) || !b.remember(examplesForm, files) {
		t.Error("examples of other files or half of them are taken, or those of these files are not")
	}
	if b.handlers = b.handlers[1:]; b.remember(examplesForm, files) {
		t.Error("examples of more handlers than there are are taken")
	}
}

// TestLoadBrief: without overlays the examples are left out unless they are asked
// for; with one they are there.
func TestLoadBrief(t *testing.T) {
	t.Parallel()
	examples := func(c *Catalog) (n int) {
		for i := range c.Handlers {
			n += len(c.Handlers[i].Examples) + len(c.Handlers[i].CounterExamples)
		}
		return n
	}
	brief, ps := Load(t.Context(), Options{RepoDir: t.TempDir()})
	if len(ps) > 0 || examples(brief) != 0 {
		t.Errorf("%d examples, %v", examples(brief), ps)
	}
	whole, ps := Load(t.Context(), Options{Examples: true})
	if len(ps) > 0 || examples(whole) < 1000 {
		t.Errorf("%d examples, %v", examples(whole), ps)
	}
	if len(brief.Handlers) != len(whole.Handlers) || len(brief.Recipes) != len(whole.Recipes) || len(brief.Chains) != len(whole.Chains) {
		t.Error("without the examples the catalog is another one")
	}
}

func BenchmarkLoad(b *testing.B) {
	files, err := embeddedFiles(data)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("compiled", func(b *testing.B) {
		b.SetBytes(int64(len(compiledForm)))
		for b.Loop() {
			if readCompiled(compiledForm, files).finish() == nil {
				b.Fatal("no catalog")
			}
		}
	})
	b.Run("compiled, with examples", func(b *testing.B) {
		b.SetBytes(int64(len(compiledForm) + len(examplesForm)))
		for b.Loop() {
			base := readCompiled(compiledForm, files)
			if !base.remember(examplesForm, files) || base.finish() == nil {
				b.Fatal("no catalog")
			}
		}
	})
	b.Run("yaml", func(b *testing.B) {
		for b.Loop() {
			base, _ := parseEmbedded(data)
			base.finish()
		}
	})
}
