package catalog

import (
	"io/fs"
	"os"
	"reflect"
	"testing"
	"testing/fstest"
)

// TestCompiledIsTheData: what is read from the compiled form is what the YAML files say, with the examples.
func TestCompiledIsTheData(t *testing.T) {
	t.Parallel()
	want, ps := parseEmbedded(data)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	form := compiledForm
	got, err := readCompiled(form)
	if *update && !reflect.DeepEqual(got, want) {
		form = want.compile()
		if err := os.WriteFile("compiled.bin", []byte(form), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err = readCompiled(form)
	}
	if err != nil || got.Sum != want.Sum {
		t.Fatal("the compiled form is not that of the files under data; type: go generate ./recovery/catalog ./recovery/classify")
	}
	for i := range reflect.TypeOf(*want).NumField() {
		if !reflect.DeepEqual(reflect.ValueOf(*got).Field(i).Interface(), reflect.ValueOf(*want).Field(i).Interface()) {
			t.Errorf("the %s of the compiled form are not those of the files", reflect.TypeOf(*want).Field(i).Name)
		}
	}
	examples := 0
	for _, h := range got.finish().Handlers {
		examples += len(h.Examples) + len(h.CounterExamples)
	}
	if examples < 1000 {
		t.Errorf("%d examples", examples)
	}
}

// TestCompiledOfOtherFiles: an edit is noticed, and a form that is broken is not taken.
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
	e, err := readCompiled(compiledForm)
	if all, aerr := embeddedFiles(edited); aerr != nil || err != nil || sumOf(all) != e.Sum {
		t.Fatalf("the same files are others: %v, %v", aerr, err)
	}
	text := append([]byte(nil), files[3].text...)
	text[len(text)/2] ^= 1
	edited[files[3].path].Data = text
	if all, err := embeddedFiles(edited); err != nil || sumOf(all) == e.Sum {
		t.Errorf("an edit is not noticed: %v", err)
	}
	if e, err := readCompiled(compiledForm[:len(compiledForm)/2]); err == nil || len(e.finish().Handlers)+len(e.Handlers) > 0 {
		t.Errorf("half a form is taken: %v", err)
	}
}

func BenchmarkLoad(b *testing.B) {
	b.Run("compiled", func(b *testing.B) {
		b.SetBytes(int64(len(compiledForm)))
		for b.Loop() {
			if _, err := Embedded(); err != nil {
				b.Fatal(err)
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
