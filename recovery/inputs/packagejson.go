package inputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// jsonObject reads a JSON object as JavaScript does: names are case-sensitive, the last of two with the same name
// counts, a byte order mark is nothing.
func jsonObject(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the object")
	}
	return v, nil
}

// jsonText writes a value with its keys sorted; a string stands for itself.
func jsonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func jsonStrings(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// packageJSON takes out of package.json what decides whose code runs during an installation, but for the scripts: see
// packageScripts.
func packageJSON(text []byte) ([]part, bool) {
	pkg, err := jsonObject(text)
	out := keysOf(pkg, "packageManager", "devEngines", "workspaces", "trustedDependencies", "dependenciesMeta", "allowScripts", "allowBuilds", "gypfile",
		"patchedDependencies", "installConfig")
	if p, ok := pkg["pnpm"].(map[string]any); ok {
		for k, v := range p {
			if k != "overrides" {
				out = append(out, part{"pnpm." + k, jsonText(v)})
			}
		}
		out = append(out, foreign("pnpm.overrides", p["overrides"])...)
	}
	for _, k := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides", "resolutions", "catalog", "catalogs"} {
		out = append(out, foreign(k, pkg[k])...)
	}
	return out, err == nil
}

// manifestTool takes out what decides which package manager runs.
func manifestTool(text []byte) ([]part, bool) {
	pkg, err := jsonObject(text)
	return keysOf(pkg, "packageManager", "devEngines"), err == nil
}

// keysOf gives those of the keys that the object has, each as a part.
func keysOf(object map[string]any, keys ...string) (out []part) {
	for _, k := range keys {
		if v, ok := object[k]; ok {
			out = append(out, part{k, jsonText(v)})
		}
	}
	return out
}

// foreign lists the dependencies that do not come from a registry.
func foreign(name string, v any) []part {
	switch v := v.(type) {
	case map[string]any:
		var out []part
		for k, inner := range v {
			out = append(out, foreign(name+"."+k, inner)...)
		}
		return out
	case string:
		if fromElsewhere(v) {
			return []part{{name, v}}
		}
	}
	return nil
}

// fromElsewhere reports whether a dependency's version is a place: a URL, a repository, a directory. A version, a range
// or a tag has neither ":" nor "/".
func fromElsewhere(spec string) bool {
	for _, plain := range []string{"npm:", "workspace:", "catalog:"} {
		if strings.HasPrefix(spec, plain) {
			return false
		}
	}
	return strings.ContainsAny(spec, ":/")
}

// iniLines leaves out what an ini file does not mean: blank lines and comments.
func iniLines(text []byte) ([]part, bool) {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != ';' && line[0] != '#' {
			b.WriteString(line + "\n")
		}
	}
	return settings(b.String()), true
}

// settings is the part of that name; none if there is no text.
func settings(text string) []part {
	if text == "" {
		return nil
	}
	return []part{{"settings", text}}
}

// workspaceYAML leaves out of pnpm-workspace.yaml the catalogs, which are plain versions. A block reaches as far as its
// lines are indented, so nothing that counts can hide in it; a catalog that names places counts.
func workspaceYAML(text []byte) ([]part, bool) {
	var b strings.Builder
	in := false
	for line := range strings.Lines(string(text)) {
		bare := strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimSpace(bare)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if bare[0] != ' ' && bare[0] != '\t' {
			in = bare == "catalog:" || bare == "catalogs:"
		} else if in {
			_, version, ok := strings.Cut(trimmed, ": ")
			version = strings.Trim(version, `"'`)
			if (ok || strings.HasSuffix(trimmed, ":")) && !fromElsewhere(version) && !strings.ContainsAny(version, "&*!|>{[") {
				continue
			}
		}
		b.WriteString(bare + "\n")
	}
	return []part{{"settings", b.String()}}, true
}
