// Package release builds what make release hands out: for each platform an archive with the program, its manual pages and shell
// completions, and one list of checksums. The same commit gives the same bytes, whoever builds it and when.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platforms are those that an archive is made for.
var platforms = []struct{ os, arch string }{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

// shells are those that cobra makes completions for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// file is one in an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// Main is the tool.
func Main() error {
	version := flag.String("version", "", "the version, as in v1.2.3")
	out := flag.String("out", "dist", "directory to write to")
	flag.Parse()
	if *version == "" {
		return errors.New("-version is missing")
	}
	return release(*version, *out)
}

func release(version, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	shared, err := sharedFiles(version)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, p := range platforms {
		name := fmt.Sprintf("prodigy_%s_%s_%s", strings.TrimPrefix(version, "v"), p.os, p.arch)
		program, err := build(version, p.os, p.arch)
		if err != nil {
			return err
		}
		pack, ending := tarGz, ".tar.gz"
		if p.os == "windows" {
			pack, ending = zipped, ".zip"
		}
		archive, err := pack(name, append([]file{program}, shared...))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+ending), archive, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name+ending)
		fmt.Printf("%s: %d bytes\n", filepath.Join(out, name+ending), len(archive))
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// build compiles the program for a platform. Nothing of this machine gets into it.
func build(version, goos, goarch string) (file, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return file{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := "prodigy"
	if goos == "windows" {
		name += ".exe"
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X prodigy/internal/cli.version="+version, "-o", path, "./cmd/prodigy")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return file{}, fmt.Errorf("build for %s/%s: %w", goos, goarch, err)
	}
	data, err := os.ReadFile(path)
	return file{name, 0o755, data}, err
}

// sharedFiles are the same for every platform: texts, manual pages and completions.
func sharedFiles(version string) ([]file, error) {
	var list []file
	for _, name := range []string{"README.md", "LICENSE"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list = append(list, file{name, 0o644, data})
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := output("go", "test", "./internal/cli", "-tags", "man", "-count=1", "-run", "^TestManualPages$", "-man", dir); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		list = append(list, file{"man/" + filepath.Base(page), 0o644, data})
	}
	for _, shell := range shells {
		data, err := output("go", "run", "./cmd/prodigy", "completion", shell)
		if err != nil {
			return nil, err
		}
		list = append(list, file{"completions/prodigy." + shell, 0o644, data})
	}
	return list, nil
}

func output(name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out.Bytes(), nil
}

// epoch is the time of all files: archives that differ by when they were made could not be compared.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func sorted(files []file) []file {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

func tarGz(dir string, files []file) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, f := range sorted(files) {
		header := tar.Header{Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

func zipped(dir string, files []file) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		header := zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(f.mode)
		w, err := z.CreateHeader(&header)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
