package yamldoc_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/yamldoc"
)

type sample struct {
	Name  string                  `yaml:"name,required" doc:"The name. It is shown."`
	Level string                  `yaml:"level" enum:"low|high" doc:"How much."`
	Wait  time.Duration           `yaml:"wait" doc:"How long."`
	On    bool                    `yaml:"on" doc:"Whether."`
	Count *int64                  `yaml:"count" doc:"How many."`
	Tags  []string                `yaml:"tags,single" doc:"Words."`
	Free  any                     `yaml:"free" doc:"Anything."`
	Parts yamldoc.NamedList[part] `yaml:"parts" doc:"Parts by name."`
	Env   map[string]string       `yaml:"env" doc:"Variables."`
	part
}

type part struct {
	Size int64 `yaml:"size" doc:"How large."`
}

func decode(t *testing.T, text string) (sample, diag.List) {
	t.Helper()
	var list diag.List
	src := diag.Source{Name: "f.yaml", Text: yamldoc.Normalize(text)}
	var s sample
	if root := yamldoc.Parse(src, &list); root != nil {
		dec := yamldoc.Decoder{Source: src, List: &list}
		dec.Into(root, &s, "the sample")
	}
	list.Sort()
	return s, list
}

func TestDecode(t *testing.T) {
	got, list := decode(t, "\ufeffname: No\r\nwait: 1m30s\r\non: true\r\ncount: 3\r\ntags: one\r\nsize: 4\r\nfree: {a: [1, 2.5, x, null]}\r\nparts: {b: {size: 1}, a: {size: 2}}\r\nenv: {K: v}\r\n")
	if len(list) > 0 {
		t.Fatalf("unexpected problems: %v", list)
	}
	if got.Name != "No" || got.Wait != 90*time.Second || !got.On || *got.Count != 3 || got.Size != 4 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"one"}, got.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(any(map[string]any{"a": []any{int64(1), 2.5, "x", nil}}), got.Free); diff != "" {
		t.Errorf("free (-want +got):\n%s", diff)
	}
	if len(got.Parts) != 2 || got.Parts[0].Name != "b" || got.Parts[1].Value.Size != 2 {
		t.Errorf("parts lost their order or values: %+v", got.Parts)
	}
}

func TestProblemsHaveTheirPlace(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key, with the nearest", "nmae: x", []string{
			`f.yaml:1:1: the sample: the key "name" is missing | add name: …  # The name.`,
			`f.yaml:1:1: unknown key "nmae" in the sample | did you mean "name"?`}},
		{"wrong types", "name: 5\non: yes please\ncount: many\nwait: soon\nlevel: mid", []string{
			`f.yaml:1:7: name: want text, got a number | quote it: '5'`,
			`f.yaml:2:5: on: want true or false, got text | `,
			`f.yaml:3:8: count: want a whole number, got text | `,
			`f.yaml:4:7: wait: "soon" is no duration | write it as 30s, 5m or 1h30m`,
			`f.yaml:5:8: level: "mid" is not allowed here | known here: high, low`}},
		{"doubled key", "name: a\nname: b", []string{`f.yaml:2:1: "name" stands here a second time; the first is on line 1 | drop one of them`}},
		{"tab", "name: a\nfree:\n\tx: 1", []string{"f.yaml:3:1: YAML does not allow a tab for indentation | indent with spaces"}},
		{"two documents", "name: a\n---\nname: b", []string{"f.yaml:2:1: a second document starts here; a file holds one | put it in a file of its own"}},
		{"empty", " \n", []string{"f.yaml:1:1: the file is empty | "}},
		{"only a comment", "# nothing\n", []string{"f.yaml:1:1: the file is empty | "}},
		{"a list", "- a", []string{"f.yaml:1:1: want keys and values, got a list | "}},
		{"alias into itself", "name: a\nfree: &x [*x]", []string{"f.yaml:2:11: the alias *x stands inside what it names | "}},
		{"broken", "name: [a", []string{"f.yaml:1: this is not YAML: did not find expected ',' or ']' | "}},
	} {
		_, list := decode(t, tc.text)
		var got []string
		for _, d := range list {
			got = append(got, d.String()+" | "+d.Hint)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestMergeKeys(t *testing.T) {
	got, list := decode(t, "free: &base {size: 1}\nparts:\n  a: {<<: *base}\n  b: {<<: [*base], size: 9}\nname: x")
	if len(list) > 0 {
		t.Fatal(list)
	}
	if got.Parts[0].Value.Size != 1 || got.Parts[1].Value.Size != 9 {
		t.Errorf("got %+v", got.Parts)
	}
}

func TestAliasBombIsRefused(t *testing.T) {
	text := "name: a\nfree:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9))
	}
	if _, list := decode(t, text); len(list) == 0 || !strings.Contains(list[0].Message, "too large") {
		t.Errorf("got %v", list)
	}
}

func TestLocate(t *testing.T) {
	for _, tc := range []struct{ name, text, find string }{
		{"plain", "k: ab éX", "X"},
		{"double quoted", `k: "a\t\u00e9\"X"`, "X"},
		{"single quoted", "k: 'it''s X'", "X"},
		{"literal", "k: |\n  one\n  two é X\n", "X"},
		{"literal after a blank", "k: |\n\n    one\n      two X\n", "X"},
		{"folded", "k: >\n  one two\n  three aX\n", "X"},
		{"folded, word start", "k: >-\n  one two\n  X four\n", "X"},
	} {
		src := diag.Source{Name: "f", Text: tc.text}
		var list diag.List
		root := yamldoc.Parse(src, &list)
		if root == nil {
			t.Fatalf("%s: %v", tc.name, list)
		}
		n := root.Content[1]
		got := yamldoc.Locate(src, n, strings.Index(n.Value, tc.find))
		line := []rune(src.Line(got.Line))
		if got.Col < 1 || got.Col > len(line) || string(line[got.Col-1]) != tc.find {
			t.Errorf("%s: %v does not point at %q in %q", tc.name, got, tc.find, src.Line(got.Line))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"name: x\nfree: {a: [1]}", "a: &x [*x]", "<<: {a: b}", "\ufeffa: |\n b", "a: \"\\u12", "? [a]\n: b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list diag.List
		src := diag.Source{Name: "f", Text: yamldoc.Normalize(text)}
		root := yamldoc.Parse(src, &list)
		if (root == nil) == (len(list) == 0) {
			t.Fatalf("want a tree or problems: %v, %v", root, list)
		}
		if root == nil {
			return
		}
		var s sample
		dec := yamldoc.Decoder{Source: src, List: &list, String: func(n *yaml.Node, _ reflect.Type) (any, bool) {
			yamldoc.Locate(src, n, len(n.Value)/2)
			return nil, false
		}}
		dec.Into(root, &s, "x")
	})
}
