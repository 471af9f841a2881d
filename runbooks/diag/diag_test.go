package diag_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/diag"
)

func TestListErrSortsAndDropsRepeats(t *testing.T) {
	var l diag.List
	if err := l.Err(); err != nil {
		t.Fatalf("empty list: got %v, want nil", err)
	}
	l.AddHint(diag.Pos{File: "b.yaml", Line: 2, Col: 1}, "did you mean \"get\"?", "unknown verb %q", "gte")
	l.Addf(diag.Pos{File: "a.yaml", Line: 9, Col: 3}, "late")
	l.Addf(diag.Pos{File: "a.yaml", Line: 9, Col: 3}, "late")
	want := "a.yaml:9:3: late\nb.yaml:2:1: unknown verb \"gte\"\n\thint: did you mean \"get\"?"
	err := fmt.Errorf("wrapped: %w", l.Err())
	if diff := cmp.Diff("wrapped: "+want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if got, ok := diag.AsList(err); !ok || len(got) != 2 {
		t.Errorf("AsList(%v) = %v, %v; want two diagnostics", err, got, ok)
	}
	if _, ok := diag.AsList(errors.New("plain")); ok {
		t.Error("AsList found diagnostics in a plain error")
	}
}

func TestExcerpt(t *testing.T) {
	src := diag.Source{Name: "x", Text: "one\r\n\ttwo: é error\x1b[2J\nlast"}
	for _, tc := range []struct {
		name string
		pos  diag.Pos
		want string
	}{
		{"first line, CRLF", diag.Pos{Line: 1, Col: 2}, "\tone\n\t ^"},
		{"columns are characters, controls are blanked", diag.Pos{Line: 2, Col: 9}, "\t two: é error [2J\n\t        ^"},
		{"past the end of the line", diag.Pos{Line: 3, Col: 99}, "\tlast\n\t    ^"},
		{"no such line", diag.Pos{Line: 9, Col: 1}, ""},
		{"no line", diag.Pos{}, ""},
	} {
		if diff := cmp.Diff(tc.want, src.Excerpt(tc.pos)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestExcerptOfAVeryLongLineShowsTheColumn(t *testing.T) {
	src := diag.Source{Text: strings.Repeat("x", 5000) + "Y" + strings.Repeat("x", 5000)}
	got := strings.Split(src.Excerpt(diag.Pos{Line: 1, Col: 5001}), "\n")
	if len(got) != 2 || len(got[0]) > 110 || got[0][len(got[1])-1] != 'Y' {
		t.Errorf("excerpt does not show the column: %q", got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"replicas", "namespace", "name", "deployment", "timeout"}
	for _, tc := range []struct{ word, want string }{
		{"replica", "replicas"},
		{"Namespace", "namespace"},
		{"time_out", "timeout"},
		{"nmae", "name"},
		{"xyzzy", ""},
		{"", ""},
	} {
		if got := diag.Nearest(tc.word, names); got != tc.want {
			t.Errorf("Nearest(%q) = %q, want %q", tc.word, got, tc.want)
		}
	}
}
