package inputs

import (
	"fmt"
	"strings"
	"testing"
)

// monorepo has members with sources, 10,000 files with the default numbers, and a
// lock file of a megabyte.
func monorepo(b testing.TB, members, sources int) box {
	box := box{t: b, dir: b.TempDir(), env: newBox(b, "-- x --\n").env}
	box.put("package.json", `{"workspaces": ["packages/*"], "scripts": {"prepare": "node scripts/prepare.js"}}`)
	box.put("scripts/prepare.js", "1")
	for i := range members {
		dir := fmt.Sprintf("packages/p%03d/", i)
		box.put(dir+"package.json", fmt.Sprintf(`{"name": "p%03d", "scripts": {"build": "tsc"}, "dependencies": {"a": "^1.0.0", "b": "workspace:*"}}`, i))
		for j := range sources {
			box.put(fmt.Sprintf("%ssrc/f%03d.ts", dir, j), "export {}\n")
		}
	}
	var lock strings.Builder
	lock.WriteString(`{"packages": {`)
	for i := range 4000 {
		fmt.Fprintf(&lock, `"node_modules/p%d": {"version": "1.0.0", "resolved": "https://registry.example.org/p%d/-/p%d-1.0.0.tgz", "integrity": "sha512-%s", "funding": {"url": "https://f.example.org/%d"}},`+"\n",
			i, i, i, strings.Repeat("x", 88), i)
	}
	lock.WriteString(`"node_modules/z": {}}}`)
	box.put("package-lock.json", lock.String())
	box.git("init", "-q")
	box.commit()
	return box
}

func benchmark(b *testing.B, box box) {
	q := query("rm -rf node_modules && npm install")
	base := box.take(q)
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := box.check(base, q); len(got) != 0 {
				b.Fatal(names(got))
			}
		}
	})
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			box.take(q)
		}
	})
	b.Run("load", func(b *testing.B) {
		data := base.encode()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOrdinary(b *testing.B) { benchmark(b, monorepo(b, 5, 20)) }
func BenchmarkMonorepo(b *testing.B) { benchmark(b, monorepo(b, 200, 49)) }
