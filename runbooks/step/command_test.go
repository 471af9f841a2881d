package step_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/step"
)

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name, verb string
		result     step.CommandResult
		want       any
		err        []string
	}{
		{name: "text", verb: "command: {args: [helm, ls], effect: reads}", result: step.CommandResult{Stdout: "a\n", Stderr: "b\n"},
			want: map[string]any{"exitCode": int64(0), "stdout": "a\n", "stderr": "b\n"}},
		{name: "json with whole numbers", verb: "command: {args: [helm, ls], effect: reads, output: json}", result: step.CommandResult{Stdout: `{"n":12345678,"f":1.5}`},
			want: map[string]any{"exitCode": int64(0), "stdout": `{"n":12345678,"f":1.5}`, "stderr": "", "json": map[string]any{"n": int64(12345678), "f": 1.5}}},
		{name: "exit code", verb: "command: {args: [helm, ls], effect: reads}", result: step.CommandResult{ExitCode: 3, Stdout: "a list\n", Stderr: strings.Repeat("x\n", 20) + "no such release\n"},
			err: []string{"helm ended with exit code 3", "no such release"}},
		{name: "exit code without a complaint", verb: "command: {args: [helm, ls], effect: reads}", result: step.CommandResult{ExitCode: 1, Stdout: "it failed\n"},
			err: []string{"exit code 1", "it failed"}},
		{name: "expected exit code", verb: "command: {args: [diff, a, b], effect: reads, exitCodes: [0, 1]}", result: step.CommandResult{ExitCode: 1},
			want: map[string]any{"exitCode": int64(1), "stdout": "", "stderr": ""}},
		{name: "zero is not fine when others are named", verb: "command: {args: [grep, a], effect: reads, exitCodes: [1]}", err: []string{"exit code 0"}},
		{name: "no JSON", verb: "command: {args: [helm, ls], effect: reads, output: json}", result: step.CommandResult{Stdout: "oops"}, err: []string{"helm did not print JSON"}},
		{name: "half of the JSON", verb: "command: {args: [helm, ls], effect: reads, output: json}", result: step.CommandResult{Stdout: "[1", Truncated: true},
			err: []string{"printed more than can be kept"}},
		{name: "half of the text", verb: "command: {args: [helm, ls], effect: reads}", result: step.CommandResult{Stdout: "a", Truncated: true},
			want: map[string]any{"exitCode": int64(0), "stdout": "a", "stderr": ""}},
		{name: "program that came out empty", verb: "command: {args: ['${inputs.name}'], effect: reads}", err: []string{"no program"}},
	} {
		h := &host{command: func(step.Command) (*step.CommandResult, error) { return &tt.result, nil }}
		res, err := action(t, tt.verb).Run(t.Context(), nil, h)
		if tt.err != nil {
			contains(t, err, tt.err...)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		diff(t, tt.name, tt.want, res.Value)
	}
}

func TestCommandIsHandedOverAsItIs(t *testing.T) {
	var got step.Command
	h := &host{command: func(cmd step.Command) (*step.CommandResult, error) { got = cmd; return &step.CommandResult{}, nil }}
	a := action(t, "cluster: local\ncommand: {args: [liqoctl, 'a b', '${inputs.name}'], effect: changes, env: {B: '2', A: '${inputs.ns}'}, stdin: token}", "name=x; y")
	if _, err := a.Run(t.Context(), nil, h); err != nil {
		t.Fatal(err)
	}
	want := step.Command{Args: []string{"liqoctl", "a b", "x; y"}, Env: []string{"A=demo", "B=2"}, Stdin: "token", Role: "local"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if a.Effect() != step.Changes {
		t.Errorf("effect: got %s, want changes", a.Effect())
	}
	p, err := a.Preview(t.Context(), nil)
	if err != nil || p.Said != "would run liqoctl 'a b' 'x; y'" || p.Idle || p.Known {
		t.Errorf("preview: got %+v, %v", p, err)
	}
	boom := errors.New("there is no liqoctl")
	h.command = func(step.Command) (*step.CommandResult, error) { return nil, boom }
	if _, err := a.Run(t.Context(), nil, h); !errors.Is(err, boom) {
		t.Errorf("a program that cannot be started: got %v, want %v", err, boom)
	}
}

func TestCommandArguments(t *testing.T) {
	for verb, want := range map[string]string{
		"command: {args: [x], effect: reads, env: {a-b: c}}": `"a-b" cannot be set in a shell`,
		"command: {args: ['', x], effect: reads}":            "the program is empty",
		"command: {args: [], effect: reads}":                 "the list is empty",
		"command: {args: [x], effect: read}":                 `did you mean "reads"`,
		"command: {args: [x]}":                               `the key "effect" is missing`,
	} {
		if got := problems(verb); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", verb, got, want)
		}
	}
}

func TestManual(t *testing.T) {
	a := action(t, "manual: {text: 'Look at ${inputs.ns}.', question: 'Is it so?'}")
	h := &host{}
	res, err := a.Run(t.Context(), nil, h)
	if err != nil || res.Said != "confirmed" {
		t.Errorf("got %v, %v; want confirmed", res, err)
	}
	diff(t, "asked", []string{"Look at demo.\nIs it so?"}, h.asked)
	h.refuse = errors.New("no")
	if _, err := a.Run(t.Context(), nil, h); !errors.Is(err, h.refuse) {
		t.Errorf("declined: got %v, want what the host said", err)
	}
	p, err := action(t, "manual: {text: Look.}").Preview(t.Context(), nil)
	if err != nil || p.Said != "would ask: Done?" || p.Idle {
		t.Errorf("preview: got %+v, %v", p, err)
	}
}
