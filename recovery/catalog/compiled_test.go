package catalog

import (
	"io/fs"
	"os"
	"reflect"
	"testing"
	"testing/fstest"
)

// TestCompiledIsTheData: what is read from the compiled form is what the YAML files
// say, but for the examples.
func TestCompiledIsTheData(t *testing.T) {
	t.Parallel()
	files, err := embeddedFiles(data)
	if err != nil {
		t.Fatal(err)
	}
	want := embeddedOnce().base
	if *update && readCompiled(compiledForm, files) == nil {
		if compiledForm, err = want.compile(files); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("compiled.gob", compiledForm, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := readCompiled(compiledForm, files)
	if got == nil {
		t.Fatal("the compiled form is not that of the files under data; type: go generate ./recovery/catalog ./recovery/classify")
	}
	want = want.clone()
	forgetExamples(want.handlers)
	for i := range want.recipes {
		want.recipes[i].OnFailure = append([]Handler(nil), want.recipes[i].OnFailure...)
		forgetExamples(want.recipes[i].OnFailure)
	}
	for name, pair := range map[string][2]any{
		"categories": {got.categories, want.categories}, "chains": {got.chains, want.chains}, "handlers": {got.handlers, want.handlers},
		"recipes": {got.recipes, want.recipes}, "projects": {got.projects, want.projects}, "managers": {got.managers, want.managers}, "names": {got.names, want.names},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("the %s of the compiled form are not those of the files", name)
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
	b.Run("yaml", func(b *testing.B) {
		for b.Loop() {
			base, _ := parseEmbedded(data)
			base.finish()
		}
	})
}
