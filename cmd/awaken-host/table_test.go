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

// Nothing is dropped from a narrow line: columns shrink, the widest first, and what
// still does not fit goes below.
func TestNarrowTable(t *testing.T) {
	tb := &table{header: []string{"TICKET", "WAITS FOR", "TOOL", "RUN", "UNTIL", "QUESTION"}, cut: true, times: []int{4}}
	tb.add("tk-gjdgfzbuhu5vy", "permission", "hello__add_note", "20261130t181844-gjdgfzbuhu5vy", "2026-12-07 19:29:40", "Write this down?  "+strings.Repeat("x", 80))
	tb.add("tk-gjdgfzbuhu5vz", "schedule", "text__word_count", "demo", "2026-12-07 19:30:40", "")
	for width, want := range map[int]string{
		140: "" +
			"TICKET            WAITS FOR   TOOL              RUN                            UNTIL                QUESTION\n" +
			"tk-gjdgfzbuhu5vy  permission  hello__add_note   20261130t181844-gjdgfzbuhu5vy  2026-12-07 19:29:40  Write this down? xxxxxxxxxxxxxxxxxxxxxx…\n" +
			"tk-gjdgfzbuhu5vz  schedule    text__word_count  demo                           2026-12-07 19:30:40  -\n",
		118: "" +
			"TICKET            WAITS FOR   TOOL              RUN                            UNTIL             QUESTION\n" +
			"tk-gjdgfzbuhu5vy  permission  hello__add_note   20261130t181844-gjdgfzbuhu5vy  2026-12-07 19:29  Write this down? xxx…\n" +
			"tk-gjdgfzbuhu5vz  schedule    text__word_count  demo                           2026-12-07 19:30  -\n",
		80: "" +
			"TICKET            WAITS FOR   TOOL              RUN                  UNTIL\n" +
			"  QUESTION\n" +
			"tk-gjdgfzbuhu5vy  permission  hello__add_note   20261130t…fzbuhu5vy  12-07 19:29\n" +
			"  Write this down? xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\n" +
			"tk-gjdgfzbuhu5vz  schedule    text__word_count  demo                 12-07 19:30\n",
	} {
		if got := tb.render(width); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// However narrow it is, lines are no wider unless the columns are at their least.
func TestTableFits(t *testing.T) {
	tb := &table{header: []string{"RUN", "A", "LONG HEADER", "BEGAN", "TEXT"}, cut: true, times: []int{3}}
	tb.add("r1", strings.Repeat("a", 50), strings.Repeat("你", 30), "2026-12-07 19:29:40", strings.Repeat("x", 100))
	for width := 50; width < 250; width++ {
		for line := range strings.Lines(tb.render(width)) {
			if w := textWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("%d columns: %d wide: %q", width, w, line)
			}
		}
	}
}

func TestTableThatIsNotCut(t *testing.T) {
	tb := &table{header: []string{"KEY", "VALUE"}}
	tb.add("a", strings.Repeat("x", 100))
	if got := tb.render(10); !strings.Contains(got, strings.Repeat("x", 100)) {
		t.Errorf("got %q", got)
	}
}
