package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func asErrno(err error) unix.Errno {
	var e unix.Errno
	_ = errors.As(err, &e) // zero: none
	return e
}

func number(args []string, i int) (int, error) {
	if len(args) <= i {
		return 0, errors.New("a number is missing")
	}
	return strconv.Atoi(args[i])
}

// forks starts up to so many processes, and keeps them all.
func forks(args []string) (string, error) {
	most, err := number(args, 0)
	if err != nil {
		return "", err
	}
	var pids []int
	defer func() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}()
	for len(pids) < most {
		pid, err := clone()
		if err != nil {
			return "", &containedError{fmt.Sprintf("after %d processes: %v", len(pids), err)}
		}
		pids = append(pids, pid)
	}
	return fmt.Sprintf("%d processes", most), nil
}

// memory takes and touches so many MiB.
func memory(args []string) (string, error) {
	most, err := number(args, 0)
	if err != nil {
		return "", err
	}
	for have := 0; have < most; have += 8 {
		block, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return "", &containedError{fmt.Sprintf("after %d MiB: %v", have, err)}
		}
		for at := 0; at < len(block); at += os.Getpagesize() {
			block[at] = 1
		}
	}
	return fmt.Sprintf("%d MiB", most), nil
}

// fill writes up to so many MiB into a folder, in files of one MiB and a hundred of
// them in a second, and leaves nothing when it comes to that.
func fill(args []string) (string, error) {
	most, err := number(args, 1)
	if err != nil {
		return "", err
	}
	block := bytes.Repeat([]byte("f"), 1<<20)
	var names []string
	defer func() {
		for _, name := range names {
			_ = os.Remove(name)
		}
	}()
	for i := range most {
		name := filepath.Join(args[0], fmt.Sprintf("awaken-fill-%d", i))
		names = append(names, name)
		if err := os.WriteFile(name, block, 0o600); err != nil {
			if e := asErrno(err); e == unix.ENOSPC || e == unix.EDQUOT || e == unix.ENOMEM {
				return "", &containedError{fmt.Sprintf("after %d MiB: %v", i, err)}
			}
			return "", err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Sprintf("%d MiB", most), nil
}

// fillClosed does so in a folder that it may enter and nobody may list.
func fillClosed(args []string) (string, error) {
	if err := os.Mkdir("closed", 0o700); err != nil {
		return "", err
	}
	if err := os.Chmod("closed", 0o300); err != nil {
		return "", err
	}
	return fill(append([]string{"closed"}, args...))
}

// fillDeep does so further down than the name of a file may be long.
func fillDeep(args []string) (string, error) {
	for name, n := strings.Repeat("d", 200), 0; n < 40; n++ {
		if err := os.Mkdir(name, 0o700); err != nil {
			return "", err
		}
		if err := unix.Chdir(name); err != nil { // os.Chdir wants to know the whole name
			return "", err
		}
	}
	return fill(append([]string{"."}, args...))
}

// fillRemoved does so with files that have no name any more.
func fillRemoved(args []string) (string, error) {
	most, err := number(args, 0)
	if err != nil {
		return "", err
	}
	block := bytes.Repeat([]byte("f"), 1<<20)
	for i := 0; i < most; i += 16 {
		f, err := os.Create("removed")
		if err != nil {
			return "", err
		}
		if err := os.Remove("removed"); err != nil {
			return "", err
		}
		for range 16 {
			if _, err := f.Write(block); err != nil {
				return "", &containedError{fmt.Sprintf("after %d MiB: %v", i, err)}
			}
			time.Sleep(10 * time.Millisecond)
		}
		defer func() { _ = f.Close() }()
	}
	return fmt.Sprintf("%d MiB", most), nil
}

// flood writes so many MiB to both streams before it says how it went.
func flood(args []string) (string, error) {
	most, err := number(args, 0)
	if err != nil {
		return "", err
	}
	block := bytes.Repeat([]byte("\x1b[31mflood\x00\xff"), 1<<16)
	for n := 0; n < most<<20; n += 2 * len(block) {
		if _, err := os.Stderr.Write(block); err != nil {
			return "", err
		}
		if _, err := os.Stdout.Write(block); err != nil {
			return "", err
		}
	}
	_, err = os.Stdout.WriteString("\n")
	return fmt.Sprintf("wrote %d MiB", most), err
}

// forge changes what is written in the files of a folder, without changing a length.
func forge(args []string) (string, error) {
	changed := 0
	err := filepath.WalkDir(args[0], func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		forged := bytes.ReplaceAll(data, []byte(args[1]), []byte(args[2]))
		if bytes.Equal(forged, data) {
			return nil
		}
		changed++
		return os.WriteFile(name, forged, 0o600)
	})
	if err != nil {
		return "", err
	}
	if changed == 0 {
		return "", errors.New("no file has it")
	}
	return fmt.Sprintf("changed %d files", changed), nil
}
