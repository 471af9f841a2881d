package generator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recordName is a file in the output that lists what a build wrote, so that the
// next one knows what is its own. Bundles leave it out.
const recordName = ".rutter-build.json"

// record is the sum of every file that a build wrote, by path.
type record struct {
	Files map[string]string `json:"files"`
}

// check refuses an output directory that would eat the sources or be read as
// one of them.
func (cfg Config) check() error {
	if cfg.Out == "" {
		return errors.New("build the site: no output directory given")
	}
	out, err := realPath(cfg.Out)
	if err != nil {
		return fmt.Errorf("output directory: %w", err)
	}
	for _, dir := range cfg.Sources {
		src, err := realPath(dir)
		if err != nil {
			return fmt.Errorf("source directory: %w", err)
		}
		switch {
		case out == src:
			return fmt.Errorf("output directory %s is the source directory: choose another with --out", cfg.Out)
		case within(src, out):
			return fmt.Errorf("output directory %s is inside the source directory %s: choose another with --out", cfg.Out, dir)
		case within(out, src):
			return fmt.Errorf("output directory %s is around the source directory %s: choose another with --out", cfg.Out, dir)
		}
	}
	return nil
}

// realPath follows the symbolic links of the part of a path that exists.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		p, err := filepath.EvalSymlinks(abs)
		if err == nil {
			return filepath.Join(p, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(abs) == abs {
			return "", err
		}
		rest = filepath.Join(filepath.Base(abs), rest)
		abs = filepath.Dir(abs)
	}
}

func within(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// write brings the output directory to the state of the tree: changed files are
// replaced whole, files of an earlier build that are not in the tree go.
func write(ctx context.Context, out string, tree Tree) (*Result, error) {
	old, err := readRecord(out)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("make the output directory: %w", err)
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, fmt.Errorf("open the output directory: %w", err)
	}
	defer root.Close()
	now := record{Files: map[string]string{}}
	for name, data := range tree {
		now.Files[name] = sum(data)
	}
	// The record goes first and names both builds' files: an interrupted build
	// leaves nothing that the next one takes for another's.
	both := record{Files: maps.Clone(old.Files)}
	maps.Copy(both.Files, now.Files)
	if err := writeRecord(root, both); err != nil {
		return nil, err
	}
	res := &Result{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changed, err := writeFile(root, name, tree[name])
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", filepath.Join(out, name), err)
		}
		if changed {
			res.Written = append(res.Written, name)
		} else {
			res.Unchanged++
		}
	}
	if res.Removed, err = removeStale(root, old, tree); err != nil {
		return nil, err
	}
	return res, writeRecord(root, now)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// readRecord returns what the last build wrote to out. A directory that has
// files but no record is somebody else's, and refused.
func readRecord(out string) (record, error) {
	r := record{Files: map[string]string{}}
	data, err := os.ReadFile(filepath.Join(out, recordName))
	if err == nil {
		if err := json.Unmarshal(data, &r); err != nil || r.Files == nil {
			return record{}, fmt.Errorf("%s is damaged: remove the output directory and build again", filepath.Join(out, recordName))
		}
		return r, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("read the output directory: %w", err)
	}
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("read the output directory: %w", err)
	}
	if len(entries) > 0 {
		return record{}, fmt.Errorf("output directory %s holds files that no build wrote, such as %s: choose another, or empty it", out, entries[0].Name())
	}
	return r, nil
}

func writeRecord(root *os.Root, r record) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		_, err = writeFile(root, recordName, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", recordName, err)
	}
	return nil
}

// writeFile replaces a file whole unless it has the data already.
func writeFile(root *os.Root, name string, data []byte) (changed bool, err error) {
	if old, err := root.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return false, err
		}
	}
	temp := name + ".tmp"
	if err := root.WriteFile(temp, data, 0o644); err != nil {
		return false, err
	}
	return true, root.Rename(temp, name)
}

// removeStale removes what an earlier build wrote and nobody changed since.
func removeStale(root *os.Root, old record, tree Tree) ([]string, error) {
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(old.Files)) {
		if _, still := tree[name]; still || !fs.ValidPath(name) {
			continue
		}
		data, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && sum(data) != old.Files[name] {
			continue
		}
		if err == nil {
			err = root.Remove(name)
		}
		if err != nil {
			return removed, fmt.Errorf("remove %s of an earlier build: %w", name, err)
		}
		removed = append(removed, name)
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if root.Remove(dir) != nil { // not empty
				break
			}
		}
	}
	return removed, nil
}
