package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Key is what a schema says of one key of its documents.
type Key struct {
	Path        string // as it was asked for, with the names of the schema: loops[].tests.commands
	Type        string // "text", "list of text", ...
	Description string
	Default     string   // as JSON; "" without one
	Allowed     []string // the values, as JSON, if only these are allowed
	Keys        []Key    // of an object, or of the objects in a list, with their first sentences only
}

// KeyOf returns what the schema of kind k says of a key. The path has the names of the keys with dots between them; [] for
// the elements of a list may be left out. It returns false if there is no such key.
func KeyOf(k Kind, path string) (Key, bool) {
	root := parse(k)
	at, names := root, []string(nil)
	for name := range strings.SplitSeq(path, ".") {
		name = strings.TrimSuffix(name, "[]")
		next, isList, ok := child(root, at, name)
		if !ok {
			return Key{}, false
		}
		if isList {
			names[len(names)-1] += "[]"
		}
		at, names = next, append(names, name)
	}
	key := describe(root, strings.Join(names, "."), at)
	inner := at
	if items, ok := resolved(root, at["items"]); ok {
		inner = items
	}
	properties, _ := inner["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if s, ok := resolved(root, properties[name]); ok {
			sub := describe(root, name, s)
			sub.Description, _, _ = strings.Cut(sub.Description, ". ")
			key.Keys = append(key.Keys, sub)
		}
	}
	return key, true
}

// child finds the schema of a key of an object, or of the objects in a list.
func child(root, at map[string]any, name string) (schema map[string]any, isList, ok bool) {
	if items, is := resolved(root, at["items"]); is {
		at, isList = items, true
	}
	properties, _ := at["properties"].(map[string]any)
	if schema, ok = resolved(root, properties[name]); ok {
		return schema, isList, true
	}
	for _, form := range []string{"patternProperties", "additionalProperties"} { // of the operator's own names
		many, _ := at[form].(map[string]any)
		if form == "additionalProperties" {
			many = map[string]any{"": at[form]}
		}
		for _, n := range slices.Sorted(maps.Keys(many)) {
			if schema, ok = resolved(root, many[n]); ok && schema["properties"] != nil {
				return schema, isList, true
			}
		}
	}
	return nil, false, false
}

// resolved follows the reference of a schema to a definition of the same file. What stands beside the reference counts
// before the definition.
func resolved(root map[string]any, v any) (map[string]any, bool) {
	schema, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	name, isRef := strings.CutPrefix(fmt.Sprint(schema["$ref"]), "#/$defs/")
	if !isRef {
		return schema, true
	}
	defs, _ := root["$defs"].(map[string]any)
	target, ok := resolved(root, defs[name])
	if !ok {
		return nil, false
	}
	out := maps.Clone(target)
	for k, v := range schema {
		if k != "$ref" {
			out[k] = v
		}
	}
	return out, true
}

func describe(root map[string]any, path string, s map[string]any) Key {
	k := Key{Path: path, Type: typeOf(root, s)}
	k.Description, _ = s["description"].(string)
	if v, ok := s["default"]; ok {
		k.Default = compact(v)
	}
	values, _ := s["enum"].([]any)
	if v, ok := s["const"]; ok {
		values = []any{v}
	}
	for _, v := range values {
		k.Allowed = append(k.Allowed, compact(v))
	}
	return k
}

func typeOf(root, s map[string]any) string {
	words := map[string]string{"string": "text", "boolean": "true or false", "integer": "whole number", "array": "list", "null": "null"}
	var types []string
	switch t := s["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			types = append(types, fmt.Sprint(one))
		}
	}
	for i, t := range types {
		if word, ok := words[t]; ok {
			types[i] = word
		}
		if items, ok := resolved(root, s["items"]); ok && t == "array" {
			if of := typeOf(root, items); of != "" {
				types[i] = "list of " + of
			}
		}
	}
	return strings.Join(types, " or ")
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
