package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	tb := &table{header: []string{"CALL", "TEXT"}, cut: true}
	tb.add("c1", "first\nsecond \x1b[31m"+strings.Repeat("x", 40))
	tb.add("你好", "")
	got := tb.render(30)
	want := "CALL  TEXT\n" +
		"c1    first second \\x1b[31mxx…\n" +
		"你好  -\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTableKeepsSomethingOfTheLastColumn(t *testing.T) {
	tb := &table{header: []string{strings.Repeat("A", 30), "TEXT"}, cut: true}
	tb.add("a", strings.Repeat("x", 100))
	line := strings.Split(tb.render(10), "\n")[1]
	if !strings.HasSuffix(line, strings.Repeat("x", leastLast-1)+"…") {
		t.Errorf("line is %q", line)
	}
}

func TestTableThatIsNotCut(t *testing.T) {
	tb := &table{header: []string{"KEY", "VALUE"}}
	tb.add("a", strings.Repeat("x", 100))
	if got := tb.render(10); !strings.Contains(got, strings.Repeat("x", 100)) {
		t.Errorf("got %q", got)
	}
}
