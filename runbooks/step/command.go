package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// RunCommand returns the verb that runs a program on the operator's machine.
func RunCommand() *Kind {
	return &Kind{
		Name: "command",
		Doc: "Runs a local program such as helm or liqoctl, without a shell: `args` is the argument list, byte for byte.\n\n" +
			"If the step has a cluster, the program finds it as the only and current context of its kubeconfig. " +
			"The step declares its `effect`, since nobody can tell from outside. " +
			"An exit code that is not in `exitCodes` makes the step fail.",
		Example: `- id: version
  title: Ask for the version
  command: {args: [helm, version, --short], effect: runs here}
`,
		Result:    "`exitCode`, `stdout`, `stderr`, and `json` with output: json",
		New:       func() Action { return new(command) },
		NoCluster: true,
	}
}

type command struct {
	Args      []string          `yaml:"args,required" doc:"The program and its arguments."`
	Effect_   string            `yaml:"effect,required" enum:"reads|runs here|changes|destroys" doc:"How dangerous it is."`
	Env       map[string]string `yaml:"env" doc:"Environment variables to add."`
	Stdin     string            `yaml:"stdin" doc:"What the program reads from standard input."`
	ExitCodes []int64           `yaml:"exitCodes" doc:"The exit codes that are fine; 0 alone if not given."`
	Output    string            `yaml:"output" enum:"text|json" doc:"With json the standard output is parsed."`
	role      string
}

// SetRole tells the action which cluster to hand over.
func (c *command) SetRole(role string) { c.role = role }

func (c *command) Effect() Effect {
	e, _ := ParseEffect(c.Effect_)
	return e
}

// envName is what a shell takes in front of a command as an assignment.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (c *command) Check() []Problem {
	var ps []Problem
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !envName.MatchString(name) {
			ps = append(ps, Problem{"env", fmt.Sprintf("%q cannot be set in a shell", name), "use letters, digits and _"})
		}
	}
	if len(c.Args) > 0 && c.Args[0] == "" {
		ps = append(ps, Problem{"args", "the program is empty", "name it first"})
	}
	return ps
}

func (c *command) Permissions() []Permission { return nil }

func (c *command) Kubectl() []Line {
	line := Line{Env: c.env(), Words: c.Args, Stdin: c.Stdin}
	if c.role != "" && len(c.Args) > 0 && c.Args[0] != "kubectl" {
		line.Note = "with " + Mark(ContextMark, c.role) + " as the current context of your kubeconfig"
	}
	return []Line{line}
}

func (c *command) env() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

func (c *command) Preview(context.Context, Reader) (*Preview, error) {
	said := "would run"
	for _, arg := range c.Args {
		w := &shellWriter{}
		w.word(arg)
		for i, p := range w.parts {
			if i == 0 {
				said += " "
			}
			said += strings.ReplaceAll(p.Text, "\n", " ")
		}
	}
	return &Preview{Said: said}, nil
}

func (c *command) Run(ctx context.Context, _ Cluster, h Host) (*Result, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("command: args came out empty, so there is no program to run")
	}
	h.Progress("running " + c.Args[0])
	out, err := h.Command(ctx, Command{Args: c.Args, Env: c.env(), Stdin: c.Stdin, Role: c.role})
	if err != nil {
		return nil, err
	}
	value := map[string]any{"exitCode": int64(out.ExitCode), "stdout": out.Stdout, "stderr": out.Stderr}
	res := &Result{Value: value, Said: fmt.Sprintf("exit code %d", out.ExitCode)}
	ok := c.ExitCodes
	if len(ok) == 0 {
		ok = []int64{0}
	}
	if !slices.Contains(ok, int64(out.ExitCode)) {
		return res, fmt.Errorf("%s ended with exit code %d: %s", c.Args[0], out.ExitCode, lastLines(out))
	}
	if c.Output == "json" {
		var parsed any
		if out.Truncated {
			return res, fmt.Errorf("%s printed more than can be kept, so its JSON is not whole", c.Args[0])
		}
		if err := json.Unmarshal([]byte(out.Stdout), &parsed); err != nil {
			return res, fmt.Errorf("%s did not print JSON: %w", c.Args[0], err)
		}
		value["json"] = parsed
	}
	return res, nil
}

// lastLines is the end of what a program printed, where it says what is wrong.
// What it printed to standard output counts only if it complained of nothing.
func lastLines(out *CommandResult) string {
	s := strings.TrimSpace(out.Stderr)
	if s == "" {
		s = strings.TrimSpace(out.Stdout)
	}
	lines := strings.Split(s, "\n")
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	return strings.Join(lines, "\n    ")
}
