package kube

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config says which cluster to talk to and how. The zero value is the current
// context of no file at all, so at least one of Kubeconfig and Paths is set.
type Config struct {
	// Kubeconfig is one file, which must exist. It wins over Paths.
	Kubeconfig string
	// Paths are files that are merged as kubectl merges those of $KUBECONFIG;
	// missing ones are left out. See [DefaultPaths].
	Paths []string
	// Context is the name of a context, whatever characters it is made of;
	// "" is the current one.
	Context string
	// Version of Rutter, which the server sees in the user agent; "" is "dev".
	Version string
	// Stderr gets what credential plugins print to their standard error, such
	// as the address of a login page. Nil shows it only in errors.
	Stderr io.Writer
	// Interactive lets credential plugins read from standard input.
	Interactive bool
	// Patience is how long a request that can safely be repeated is repeated
	// while a server that answered before cannot be reached; 0 is 30 seconds.
	Patience time.Duration
}

// DefaultPaths returns the files that kubectl reads: those of $KUBECONFIG, or
// the one in the home directory.
func DefaultPaths(getenv func(string) string, home string) []string {
	if list := getenv(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		return filepath.SplitList(list)
	}
	return []string{filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)}
}

// Contexts returns the names of the contexts in the files that cfg names, in
// alphabetical order, and the current one, which may be "".
func Contexts(cfg Config) (names []string, current string, err error) {
	raw, err := cfg.load()
	if err != nil {
		return nil, "", err
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), raw.CurrentContext, nil
}

// files returns the files that are read, for messages.
func (cfg Config) files() []string {
	if cfg.Kubeconfig != "" {
		return []string{cfg.Kubeconfig}
	}
	return slices.DeleteFunc(slices.Clone(cfg.Paths), func(p string) bool { return p == "" })
}

// load reads and merges the files. It never writes to them.
func (cfg Config) load() (*clientcmdapi.Config, error) {
	files := cfg.files()
	if len(files) == 0 {
		return nil, errors.New("no kubeconfig: set KUBECONFIG or name a file")
	}
	exists := func(p string) bool { _, err := os.Stat(p); return err == nil }
	if !slices.ContainsFunc(files, exists) {
		if _, err := os.Stat(files[0]); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		return nil, fmt.Errorf("no kubeconfig: there is no file %s", strings.Join(files, ", "))
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: cfg.Kubeconfig, Precedence: cfg.Paths}
	raw, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return raw, nil
}

// resolve returns the settings of the chosen context, and its name.
func (cfg Config) resolve() (*rest.Config, *clientcmdapi.Config, string, error) {
	raw, err := cfg.load()
	if err != nil {
		return nil, nil, "", err
	}
	name := cfg.Context
	if name == "" {
		name = raw.CurrentContext
	}
	if name == "" {
		return nil, nil, "", fmt.Errorf("no context was chosen and %s sets no current one: %s",
			strings.Join(cfg.files(), ", "), known(raw))
	}
	if _, ok := raw.Contexts[name]; !ok {
		return nil, nil, "", fmt.Errorf("there is no context %q: %s", name, hint(name, raw))
	}
	conf, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, nil, "", fmt.Errorf("context %q: %w", name, err)
	}
	return conf, raw, name, nil
}

// hint says which context was probably meant, or which there are.
func hint(name string, raw *clientcmdapi.Config) string {
	if near := nearest(name, slices.Sorted(maps.Keys(raw.Contexts))); len(near) > 0 {
		return "did you mean " + quoted(near, " or ") + "?"
	}
	return known(raw)
}

func known(raw *clientcmdapi.Config) string {
	names := slices.Sorted(maps.Keys(raw.Contexts))
	switch {
	case len(names) == 0:
		return "the kubeconfig has no context at all"
	case len(names) > 12:
		return fmt.Sprintf("there are %d, of which the first are %s", len(names), quoted(names[:12], ", "))
	}
	return "there is " + quoted(names, ", ")
}

func quoted(names []string, sep string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, sep)
}

// nearest returns up to three candidates that word may have been meant to be:
// those within a third of its length in edits, and those it is a part of.
func nearest(word string, candidates []string) []string {
	type scored struct {
		name string
		dist int
	}
	var near []scored
	lower := strings.ToLower(word)
	for _, c := range candidates {
		cl := strings.ToLower(c)
		d := distance([]rune(lower), []rune(cl))
		switch {
		case d <= max(1, min(2, len(lower)-1), len(lower)/3):
			near = append(near, scored{c, d})
		case len(lower) > 2 && (strings.Contains(cl, lower) || strings.Contains(lower, cl) && len(cl) > 2):
			near = append(near, scored{c, len(lower) + d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.dist - b.dist })
	var names []string
	for _, s := range near[:min(3, len(near))] {
		names = append(names, s.name)
	}
	return names
}

// distance counts the insertions, deletions and substitutions between two words.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
