package step_test

import (
	"strings"
	"testing"

	"rutter/runbooks/step"
)

func TestBuiltinIsValid(t *testing.T) {
	if err := step.Validate(step.Builtin()); err != nil {
		t.Errorf("got\n%v\nwant no problems", err)
	}
}

// bare is an action whose arguments lack their tags.
type bare struct {
	step.Action
	Nested []struct {
		Named string `yaml:"named" doc:"It has both."`
		Other string `yaml:"other"`
	} `yaml:"nested" doc:"It has both."`
	Untyped string
	hidden  string
}

func TestValidateNamesWhatIsMissing(t *testing.T) {
	good := func() *step.Kind {
		k := *step.Check()
		return &k
	}
	for _, tt := range []struct {
		name   string
		change func(k *step.Kind)
		want   []string
	}{
		{"nothing", func(*step.Kind) {}, nil},
		{"name", func(k *step.Kind) { k.Name = "Two words" }, []string{`kind "Two words": a name is letters`, "the Example is not a step"}},
		{"doc", func(k *step.Kind) { k.Doc = " " }, []string{"kind check: no Doc"}},
		{"example", func(k *step.Kind) { k.Example = "- id: a\n  wait: {}\n" }, []string{"kind check: the Example is not a step with the verb"}},
		{"new", func(k *step.Kind) { k.New = nil }, []string{"kind check: no New"}},
		{"new of nothing", func(k *step.Kind) { k.New = func() step.Action { return nil } }, []string{"New does not return a pointer"}},
		{"tags", func(k *step.Kind) { k.New = func() step.Action { return &bare{hidden: "it is no argument"} } },
			[]string{"bare.Nested.Other has no doc tag", "bare.Untyped has no yaml tag"}},
	} {
		k := good()
		tt.change(k)
		got := ""
		if err := step.Validate([]*step.Kind{k}); err != nil {
			got = err.Error()
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", tt.name, got, want)
			}
		}
		if n := strings.Count(got, "\n") + 1; got != "" && n != len(tt.want) || got == "" && len(tt.want) > 0 {
			t.Errorf("%s: got\n%s\nwant %d problems", tt.name, got, len(tt.want))
		}
	}
	if err := step.Validate([]*step.Kind{good(), good()}); err == nil || !strings.Contains(err.Error(), "there are two of them") {
		t.Errorf("twice the same name: got %v", err)
	}
}
