// Package bundle packs a built site into one file that can be carried to where
// there is no network.
//
// A [Format] is one way to pack, and lives in one file; [Formats] lists them.
// Each takes the same output tree and writes the same bytes for the same tree
// and [Options]. A bundle holds [ManifestName], which gives the SHA-256 sum and
// size of every other file, and [Verify] checks a bundle against it. A sum
// shows damage; that a bundle comes from whom it says takes a signature.
package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"rutter/runbooks/diag"
)

// Format is a way to pack a site.
type Format struct {
	Name string // what is typed: "zip"
	Ext  string // with the dot: ".zip"
	Doc  string // one line for the help text
	// Write packs the tree. It reads nothing but the tree and the options.
	Write func(ctx context.Context, w io.Writer, tree fs.FS, opts Options) error
}

// Options are the same for every format. The zero value is valid.
type Options struct {
	// Epoch is the time of every entry, as SOURCE_DATE_EPOCH gives it. Times
	// before 1980, which a zip cannot hold, count as 1980.
	Epoch time.Time
}

// Formats returns the formats, in the order of the help text. Adding one is its
// file, its test, and a line here.
func Formats() []Format {
	return []Format{Zip()}
}

// Find returns the format of that name, or an error naming the nearest.
func Find(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("unknown bundle format %q: %s", name, diag.DidYouMean(name, names))
}

// ManifestName is the file at the root of every bundle that lists the others.
const ManifestName = "manifest.json"

// Manifest lists the files of a bundle, sorted by path.
type Manifest struct {
	Version int            `json:"version"` // 1
	Files   []ManifestFile `json:"files"`
}

// ManifestFile is one file: a path with slashes, its size in bytes, and the
// SHA-256 sum in lower-case hex.
type ManifestFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// encode returns the bytes of the manifest; the same files give the same bytes.
func (m Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestName, err)
	}
	return append(b, '\n'), nil
}

// list returns the files of a tree by name and their manifest. Files whose name
// starts with a dot, such as the record of a build, are not part of a bundle.
func list(ctx context.Context, tree fs.FS) (Manifest, error) {
	m := Manifest{Version: 1}
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err := cmpErr(ctx.Err(), err); err != nil {
			return err
		}
		if p != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s: not a regular file", p)
		}
		if p == ManifestName {
			return fmt.Errorf("%s: the name is taken by the bundle's own manifest", p)
		}
		if err := checkName(p); err != nil {
			return err
		}
		f, err := sum(tree, p)
		m.Files = append(m.Files, f)
		return err
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("list the site: %w", err)
	}
	slices.SortFunc(m.Files, func(a, b ManifestFile) int { return strings.Compare(a.Path, b.Path) })
	return m, nil
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sum(tree fs.FS, p string) (ManifestFile, error) {
	f, err := tree.Open(p)
	if err != nil {
		return ManifestFile{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return ManifestFile{}, fmt.Errorf("read %s: %w", p, err)
	}
	return ManifestFile{Path: p, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
