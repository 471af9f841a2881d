package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits bound what [Verify] accepts, so that a small archive cannot unpack
// into more than the machine holds. A zero field means its default.
type Limits struct {
	Files     int   // entries; 100,000
	FileBytes int64 // one file unpacked; 256 MiB
	Bytes     int64 // all files unpacked; 2 GiB
}

func (l Limits) orDefault() Limits {
	if l.Files == 0 {
		l.Files = 100_000
	}
	if l.FileBytes == 0 {
		l.FileBytes = 256 << 20
	}
	if l.Bytes == 0 {
		l.Bytes = 2 << 30
	}
	return l
}

// VerifyFile verifies the bundle in a file.
func VerifyFile(ctx context.Context, name string, limits Limits) (Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Manifest{}, err
	}
	m, err := Verify(ctx, f, st.Size(), limits)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// Verify checks that a bundle is whole: that no byte of it changed since it was
// sealed, that it holds exactly the files of its manifest with their sizes and
// sums, and that none of them could do harm when unpacked. It returns the
// manifest. Errors name the file that is at fault.
func Verify(ctx context.Context, r io.ReaderAt, size int64, limits Limits) (Manifest, error) {
	limits = limits.orDefault()
	if err := checkSeal(ctx, r, size); err != nil {
		return Manifest{}, err
	}
	zr, err := zip.NewReader(r, size)
	if err != nil {
		return Manifest{}, fmt.Errorf("not a whole zip archive: %w", err)
	}
	if err := checkEntries(zr.File, limits); err != nil {
		return Manifest{}, err
	}
	if err := checkLayout(r, zr.File); err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(zr.File, limits)
	if err != nil {
		return Manifest{}, err
	}
	return m, checkSums(ctx, zr.File[1:], m, limits)
}

// checkSeal compares the sum in the comment with the bytes before it.
func checkSeal(ctx context.Context, r io.ReaderAt, size int64) error {
	body := size - int64(sealSize)
	if body <= 0 {
		return errors.New("too short for a bundle")
	}
	comment := make([]byte, sealSize)
	if _, err := r.ReadAt(comment, body); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the seal: %w", err)
	}
	want, ok := strings.CutPrefix(string(comment), sealPrefix)
	if !ok {
		return errors.New("no seal at the end: not a bundle, or cut short")
	}
	h := sha256.New()
	if _, err := io.Copy(h, contextReader{ctx, io.NewSectionReader(r, 0, body)}); err != nil {
		return fmt.Errorf("read the bundle: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != want {
		return errors.New("the bundle was changed after it was sealed")
	}
	return nil
}

// checkEntries looks at the directory of the archive before anything is
// unpacked.
func checkEntries(files []*zip.File, limits Limits) error {
	if len(files) == 0 || files[0].Name != ManifestName {
		return errors.New(ManifestName + ": missing, it must be the first file")
	}
	if len(files) > limits.Files {
		return fmt.Errorf("%d files, more than the limit of %d", len(files), limits.Files)
	}
	var total uint64
	seen := map[string]string{}
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if f.Mode() != 0o644 || f.Method != zip.Deflate || f.Flags&1 != 0 {
			return fmt.Errorf("%s: not a plain file (mode %v, method %d)", f.Name, f.Mode(), f.Method)
		}
		fold := strings.ToLower(f.Name)
		if other, dup := seen[fold]; dup {
			return fmt.Errorf("%s: there twice, also as %s", f.Name, other)
		}
		seen[fold] = f.Name
		if f.UncompressedSize64 > uint64(limits.FileBytes) {
			return fmt.Errorf("%s: %d bytes, more than the limit of %d", f.Name, f.UncompressedSize64, limits.FileBytes)
		}
		total += f.UncompressedSize64
		if total > uint64(limits.Bytes) {
			return fmt.Errorf("%s: all files together are larger than the limit of %d bytes", f.Name, limits.Bytes)
		}
	}
	return nil
}

// checkLayout makes sure that the entries lie one after another from the first
// byte on and that each is named there as in the directory, so that programs
// which read an archive from its start see the same files.
func checkLayout(r io.ReaderAt, files []*zip.File) error {
	const headerSize = 30
	var next int64
	for _, f := range files {
		head := make([]byte, headerSize+len(f.Name))
		if _, err := r.ReadAt(head, next); err != nil {
			return fmt.Errorf("%s: read its header: %w", f.Name, err)
		}
		nameLen := int(binary.LittleEndian.Uint16(head[26:]))
		extraLen := int64(binary.LittleEndian.Uint16(head[28:]))
		if !bytes.Equal(head[:4], []byte("PK\x03\x04")) || nameLen != len(f.Name) || string(head[headerSize:]) != f.Name {
			return fmt.Errorf("%s: its header says something else than the directory", f.Name)
		}
		start, err := f.DataOffset()
		if err != nil || start != next+headerSize+int64(nameLen)+extraLen {
			return fmt.Errorf("%s: does not lie where it should", f.Name)
		}
		next = start + int64(f.CompressedSize64)
		if f.Flags&8 != 0 { // a data descriptor follows
			next += 16
			if f.CompressedSize64 >= 1<<32-1 || f.UncompressedSize64 >= 1<<32-1 {
				next += 8
			}
		}
	}
	directory := make([]byte, 4)
	if _, err := r.ReadAt(directory, next); err != nil || !bytes.Equal(directory, []byte("PK\x01\x02")) {
		return errors.New("something lies between the last file and the directory")
	}
	return nil
}

func readManifest(files []*zip.File, limits Limits) (Manifest, error) {
	var buf bytes.Buffer
	if _, err := unpack(files[0], &buf, limits); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(buf.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", ManifestName, err)
	}
	if m.Version != 1 {
		return Manifest{}, fmt.Errorf("%s: version %d, this program reads 1", ManifestName, m.Version)
	}
	again, err := m.encode()
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(again, buf.Bytes()) {
		return Manifest{}, errors.New(ManifestName + ": not in its normal form")
	}
	return m, nil
}

// checkSums compares the files, which must come in the manifest's order.
func checkSums(ctx context.Context, files []*zip.File, m Manifest, limits Limits) error {
	for i, want := range m.Files {
		if i > 0 && m.Files[i-1].Path >= want.Path {
			return fmt.Errorf("%s: %s is out of order", ManifestName, want.Path)
		}
		if i >= len(files) || files[i].Name > want.Path {
			return fmt.Errorf("%s: missing", want.Path)
		}
		if files[i].Name != want.Path {
			return fmt.Errorf("%s: not in the manifest", files[i].Name)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		h := sha256.New()
		n, err := unpack(files[i], h, limits)
		if err != nil {
			return err
		}
		if n != want.Size || hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
			return fmt.Errorf("%s: its size or sum is not the manifest's", want.Path)
		}
	}
	if len(files) > len(m.Files) {
		return fmt.Errorf("%s: not in the manifest", files[len(m.Files)].Name)
	}
	return nil
}

// unpack copies an entry to w, never more than it declared and the limit allows.
func unpack(f *zip.File, w io.Writer, limits Limits) (int64, error) {
	rc, err := f.Open()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.Name, err)
	}
	defer rc.Close()
	n, err := io.Copy(w, io.LimitReader(rc, limits.FileBytes+1))
	switch {
	case err != nil:
		return n, fmt.Errorf("%s: %w", f.Name, err)
	case n > limits.FileBytes || uint64(n) != f.UncompressedSize64:
		return n, fmt.Errorf("%s: unpacks to another size than it declares", f.Name)
	}
	return n, nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader; it fails once the context is done.
func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
