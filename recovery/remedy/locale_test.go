package remedy

import (
	"testing"
)

// The language of messages is that of setlocale: LC_ALL before LC_MESSAGES before LANG.
func TestLookLocale(t *testing.T) {
	for _, tc := range []struct {
		all, messages, lang string
		localized           bool
	}{
		{"", "", "", false},
		{"", "", "C.UTF-8", false},
		{"", "", "en_US.UTF-8", false},
		{"", "", "de_DE.UTF-8", true},
		{"", "C", "de_DE.UTF-8", false},
		{"ja_JP.UTF-8", "C", "en_US", true},
		{"POSIX", "fr_FR", "fr_FR", false},
	} {
		t.Setenv("LC_ALL", tc.all)
		t.Setenv("LC_MESSAGES", tc.messages)
		t.Setenv("LANG", tc.lang)
		var p Profile
		if p.lookLocale(); p.Localized != tc.localized {
			t.Errorf("%+v: localized is %t", tc, p.Localized)
		}
	}
}
