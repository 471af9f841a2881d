package bundle

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"
)

// Zip packs the site as a .zip: the manifest first, then the files sorted by
// name, all with one time and mode. The archive's comment is a seal, the
// SHA-256 sum of every byte before it, so that no byte can change unseen.
func Zip() Format {
	return Format{Name: "zip", Ext: ".zip", Doc: "the site as a .zip, to unpack and open", Write: writeZip}
}

const sealPrefix = "rutter-bundle sha256:"

// sealSize is the length of the comment.
const sealSize = len(sealPrefix) + 2*sha256.Size

// zipTime returns the nearest time that a zip can hold: even seconds, in the
// years 1980 to 2107.
func zipTime(t time.Time) time.Time {
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	switch t = t.UTC().Truncate(2 * time.Second); {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

func writeZip(ctx context.Context, w io.Writer, tree fs.FS, opts Options) error {
	m, err := list(ctx, tree)
	if err != nil {
		return err
	}
	manifest, err := m.encode()
	if err != nil {
		return err
	}
	sealed := &sealWriter{w: w, sum: sha256.New()}
	zw := zip.NewWriter(sealed)
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	when := zipTime(opts.Epoch)
	if err := addEntry(zw, ManifestName, when, bytes.NewReader(manifest)); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := addFile(zw, tree, f.Path, when); err != nil {
			return err
		}
	}
	if err := zw.SetComment(sealPrefix + string(bytes.Repeat([]byte{'0'}, 2*sha256.Size))); err != nil {
		return fmt.Errorf("seal the archive: %w", err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("finish the archive: %w", err)
	}
	return sealed.seal()
}

func addFile(zw *zip.Writer, tree fs.FS, name string, when time.Time) error {
	f, err := tree.Open(name)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	defer f.Close()
	return addEntry(zw, name, when, f)
}

func addEntry(zw *zip.Writer, name string, when time.Time, r io.Reader) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: when}
	h.SetMode(0o644)
	w, err := zw.CreateHeader(h)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// sealWriter passes on all but the last sealSize bytes, and sums what it passes.
type sealWriter struct {
	w    io.Writer
	sum  hash.Hash
	held []byte
}

// Write implements io.Writer.
func (s *sealWriter) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	if n := len(s.held) - sealSize; n > 0 {
		s.sum.Write(s.held[:n])
		if _, err := s.w.Write(s.held[:n]); err != nil {
			return 0, err
		}
		s.held = append(s.held[:0], s.held[n:]...)
	}
	return len(p), nil
}

// seal writes the comment in place of the bytes held back.
func (s *sealWriter) seal() error {
	if _, err := io.WriteString(s.w, sealPrefix+hex.EncodeToString(s.sum.Sum(nil))); err != nil {
		return fmt.Errorf("seal the archive: %w", err)
	}
	return nil
}
