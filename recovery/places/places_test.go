package places

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse("# c\n\na\n  with p q\n  holds ~/d /e\n  pins p: ~/x ~/d/y ~/i/*\n  watches p q: ~/L/A%20B/z\n  keeps ~/k\n  hides $S\n  secret ~/s .env\n  tree .t\n  why so it is\n\nb\n  holds ~/b\n")
	want := []Entry{{ID: "a", With: []string{"p", "q"}, Holds: []string{"~/d", "/e", "~/x", "~/i"}, Keeps: []string{"~/k"}, Hides: []string{"$S"}, Secret: []string{"~/s", ".env"}, Tree: []string{".t"}, Why: "so it is",
		Inputs: []Inputs{{[]string{"p"}, []string{"x", "d/y", "i/*"}}, {[]string{"p", "q"}, []string{"L/A B/z"}}}}, {ID: "b", Holds: []string{"~/b"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"a\n  what x", "  holds ~/x", "a b", "a\n  holds", "a\n\n  holds ~/x", "a\n  pins p ~/x", "a\n  pins : ~/x", "a\n  watches p: /x", "a\n  pins p:"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
