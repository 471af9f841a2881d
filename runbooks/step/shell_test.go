package step

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shells are the shells that lines must mean the same in. The first is always
// there; others are tried where they are.
func shells(t *testing.T) []string {
	t.Helper()
	found := []string{"sh"}
	for _, name := range []string{"bash", "dash", "busybox", "zsh"} {
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// runShell runs a script as a person would paste it, with extra environment.
func runShell(t *testing.T, shell, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	args := []string{"-c", script}
	if shell == "busybox" {
		args = append([]string{"sh"}, args...)
	}
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\nscript:\n%s", shell, err, out, script)
	}
	return string(out)
}

// awkward is text that a shell would like to read otherwise.
var awkward = []string{
	"", "plain", "two words", "  lead and trail  ", "it's", `"double"`, `'`, `''`, `\`, `a\b`, `\n`, "$HOME", "${HOME}", "$(id)", "`date`",
	"a;b", "a&b", "a|b", "<in>", "*", "?", "[a]", "{a,b}", "~", "!x", "#c", "a=b", "=", "-n", "--", "tab\there", "line\nbreak", "trailing\n",
	"${x:-y}", "%s%n", "ünïcödé 漢字", "(sub)", "if", "a'b\"c$d`e\\f", `{"a":"b's"}`, "EOF",
}

func TestShellKeepsArguments(t *testing.T) {
	for _, shell := range shells(t) {
		script := Shell([]Line{{Words: append([]string{"printf", `%s\0`}, awkward...)}}, "")
		want := strings.Join(awkward, "\x00") + "\x00"
		if got := runShell(t, shell, script); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", shell, got, want)
		}
	}
}

func TestShellKeepsEnvironment(t *testing.T) {
	for _, text := range awkward {
		script := Shell([]Line{{Env: []string{"RUTTER_TEST=" + text}, Words: []string{"sh", "-c", `printf %s "$RUTTER_TEST"`}}}, "")
		if got := runShell(t, "sh", script); got != text {
			t.Errorf("got %q, want %q\n%s", got, text, script)
		}
	}
}

func TestShellKeepsDocuments(t *testing.T) {
	text := strings.Join(awkward[1:], "\n") + "\nEOF\n\n  indented\n\ttab\\\n"
	for _, shell := range shells(t) {
		script := Shell([]Line{{Words: []string{"cat"}, Stdin: text}}, "")
		if got := runShell(t, shell, script); got != text {
			t.Errorf("%s:\ngot  %q\nwant %q\n%s", shell, got, text, script)
		}
		// A shell variable in it makes it one that the shell expands.
		marked := text + Mark(OutputMark, "find.ns") + "\n"
		script = Shell([]Line{{Words: []string{"cat"}, Stdin: marked}}, "")
		if got, want := runShell(t, shell, script, "find_ns=it's $HOME"), text+"it's $HOME\n"; got != want {
			t.Errorf("%s expands:\ngot  %q\nwant %q\n%s", shell, got, want, script)
		}
	}
}

func TestShellAssigns(t *testing.T) {
	value := Mark(OutputMark, "find.ns")
	show := Line{Words: []string{"printf", `%s\0`, value, "a " + value + "'s b", "x" + value}}
	for _, tt := range []struct {
		name string
		line Line
		want string
	}{
		{"command", Line{Assign: "find.ns", Words: []string{"printf", "%s", "a  b"}}, "a  b"},
		{"default unused", Line{Assign: "find.ns", Default: "other", Words: []string{"printf", "x"}}, "x"},
		{"default", Line{Assign: "find.ns", Default: "o'th $er", Words: []string{"true"}}, "o'th $er"},
		{"default alone", Line{Assign: "find.ns", Default: "o'th $er"}, "o'th $er"},
		{"filter", Line{Assign: "find.ns", Words: []string{"printf", "%s\\n", "one", "two"}, Filter: []string{"sed", "-n", "2p"}}, "two"},
		{"filter of a document", Line{Assign: "find.ns", Words: []string{"cat"}, Stdin: "one (\ntwo\n", Filter: []string{"head", "-n", "1"}}, "one ("},
		{"filter that leaves nothing", Line{Assign: "find.ns", Default: "other", Words: []string{"printf", ""}, Filter: []string{"head", "-n", "1"}}, "other"},
		{"document", Line{Assign: "find.ns", Words: []string{"cat"}, Stdin: "a (b) 'c' $d\n"}, "a (b) 'c' $d"},
	} {
		for _, shell := range shells(t) {
			script := Shell([]Line{{Note: "a note"}, tt.line, show}, "")
			want := tt.want + "\x00a " + tt.want + "'s b\x00x" + tt.want + "\x00"
			if got := runShell(t, shell, script); got != want {
				t.Errorf("%s in %s:\ngot  %q\nwant %q\n%s", tt.name, shell, got, want, script)
			}
		}
	}
}

func TestShellLoops(t *testing.T) {
	loop := Line{
		Words: []string{"cat"}, Stdin: "ns one {\"a\":\"b c\"}\nns two \\x\n",
		Each: &Loop{Vars: []string{"namespace", "name", "patch"}, Do: []Line{
			{Words: []string{"printf", "%s|", Mark(RowMark, "namespace"), Mark(RowMark, "name"), Mark(RowMark, "patch")}},
			{Words: []string{"cat"}, Stdin: "of " + Mark(RowMark, "name") + "\n"},
		}},
	}
	want := "ns|one|{\"a\":\"b c\"}|of one\nns|two|\\x|of two\nafter"
	for _, shell := range shells(t) {
		script := Shell([]Line{loop, {Words: []string{"printf", "after"}}}, "")
		if got := runShell(t, shell, script); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q\n%s", shell, got, want, script)
		}
	}
}

func TestShellText(t *testing.T) {
	long := []string{"kubectl", "get", "connections.networking.liqo.io", "-n", Mark(InputMark, "namespace"), "-l", "liqo.io/remote-cluster-id=" + Mark(InputMark, "clusterID"), "-o", "name"}
	for _, tt := range []struct {
		name    string
		line    Line
		context string
		want    string
	}{
		{"context", Line{Words: []string{"kubectl", "get", "pods"}}, Mark(ContextMark, "local"), "kubectl --context <LOCAL_CONTEXT> get pods"},
		{"odd context", Line{Words: []string{"kubectl", "get", "pods"}}, "my first cluster", "kubectl --context 'my first cluster' get pods"},
		{"other program", Line{Words: []string{"helm", "ls"}}, "c", "helm ls"},
		{"markers in quotes", Line{Words: []string{"x", "a b " + Mark(InputMark, "clusterID")}}, "", "x 'a b <CLUSTER_ID>'"},
		{"output in quotes", Line{Words: []string{"x", "a b " + Mark(OutputMark, "find.ns") + " c"}}, "", `x 'a b '"$find_ns"' c'`},
		{"long", Line{Words: long}, Mark(ContextMark, "local"), "kubectl --context <LOCAL_CONTEXT> get connections.networking.liqo.io -n <NAMESPACE> \\\n  -l liqo.io/remote-cluster-id=<CLUSTER_ID> -o name"},
		{"note", Line{Note: "first\nsecond", Words: []string{"x"}}, "", "# first\n# second\nx"},
		{"a lone dash is a value", Line{Words: []string{"kubectl", "apply", "--server-side", "--field-manager=rutter", "--force-conflicts", "--subresource=status", "-f", "-"}}, "local",
			"kubectl --context local apply --server-side --field-manager=rutter --force-conflicts \\\n  --subresource=status -f -"},
		{"lines of a script count apart", Line{Words: []string{"sh", "-ec", "echo this is a script\n" + strings.Repeat("x ", 50) + "\n", "sh", "--flag"}}, "",
			"sh -ec 'echo this is a script\n" + strings.Repeat("x ", 50) + "\n' sh --flag"},
		{"program like a word", Line{Words: []string{"time", "if", "=x"}}, "", "'time' if '=x'"},
		{"program like an assignment", Line{Words: []string{"a=b", "c"}}, "", "'a=b' c"},
	} {
		if got := Shell([]Line{tt.line}, tt.context); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestTokensAreTheText(t *testing.T) {
	lines := []Line{
		{Assign: "find.ns", Default: "d", Words: []string{"kubectl", "get", "x", Mark(InputMark, "clusterID")}},
		{Words: []string{"kubectl", "apply", "-f", "-"}, Stdin: "a: " + Mark(OutputMark, "find.ns") + "\n"},
	}
	var names []string
	text := ""
	for _, p := range Tokens(lines, Mark(ContextMark, "local")) {
		text += p.Text
		if p.Kind != 0 {
			names = append(names, string(p.Kind)+p.Name)
		}
	}
	if want := Shell(lines, Mark(ContextMark, "local")); text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if got, want := strings.Join(names, " "), "clocal iclusterID clocal ofind.ns"; got != want {
		t.Errorf("markers %s, want %s", got, want)
	}
}

// TestShellRunsProgramsCalledLikeWords puts programs whose names mean something
// to a shell into the path.
func TestShellRunsProgramsCalledLikeWords(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append([]string{"a=b", "=x", "!", "{", "~", "with space"}, reserved...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nprintf 'ran %s|' \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		script := Shell([]Line{{Words: []string{name, "a", "b c"}}}, "")
		for _, shell := range shells(t) {
			if got, want := runShell(t, shell, script, "PATH="+dir+":"+os.Getenv("PATH")), "ran a|ran b c|"; got != want {
				t.Errorf("%s: got %q, want %q\n%s", shell, got, want, script)
			}
		}
	}
}

// TestShellKeepsInput gives a program its input without a line break at the end.
func TestShellKeepsInput(t *testing.T) {
	for _, text := range awkward[1:] {
		for _, line := range []Line{
			{Words: []string{"cat"}, Stdin: text},
			{Words: []string{"sh", "-c", `cat; printf %s "$X"`}, Stdin: text, Env: []string{"X="}},
			{Words: []string{"cat"}, Stdin: strings.TrimSuffix(text, "\n"), Assign: "find.ns"},
		} {
			script := Shell([]Line{line}, "")
			want := text
			if line.Assign != "" {
				script += "\n" + Shell([]Line{{Words: []string{"printf", "%s", Mark(OutputMark, "find.ns")}}}, "")
				want = strings.TrimSuffix(text, "\n")
			}
			if got := runShell(t, "sh", script); got != want {
				t.Errorf("got %q, want %q\n%s", got, want, script)
			}
		}
	}
	script := Shell([]Line{{Words: []string{"cat"}, Stdin: "the " + Mark(OutputMark, "find.ns")}}, "")
	if got, want := runShell(t, "sh", script, "find_ns=a  'b' $c"), "the a  'b' $c"; got != want {
		t.Errorf("got %q, want %q\n%s", got, want, script)
	}
}

// TestShellReadsNamesWithSpaces reads a row whose last column has spaces.
func TestShellReadsNamesWithSpaces(t *testing.T) {
	loop := Line{Words: []string{"printf", "%s\n", `{"a":"\\"} my role: x`, "{} plain"}, Each: &Loop{Vars: []string{"the.patch", "name"}, Do: []Line{
		{Words: []string{"printf", "%s|", Mark(RowMark, "the.patch"), Mark(RowMark, "name")}},
	}}}
	for _, shell := range shells(t) {
		if got, want := runShell(t, shell, Shell([]Line{loop}, "")), `{"a":"\\"}|my role: x|{}|plain|`; got != want {
			t.Errorf("%s: got %q, want %q", shell, got, want)
		}
	}
}

// FuzzShell states that whatever the arguments, the program gets them as they
// are. A shell cannot pass on NUL, and markers are not plain text.
func FuzzShell(f *testing.F) {
	for _, text := range awkward {
		f.Add(text, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = Plain(strings.ReplaceAll(a, "\x00", "")), Plain(strings.ReplaceAll(b, "\x00", ""))
		script := Shell([]Line{{Words: []string{"printf", `%s\0`, a, b}}}, "")
		if got, want := runShell(t, "sh", script), a+"\x00"+b+"\x00"; got != want {
			t.Errorf("got %q, want %q\n%s", got, want, script)
		}
	})
}
