package awaken.gate.shape_test

import data.awaken.gate.shape

test_entries if {
	shape.entries({"a"}) == {"a"}
	shape.entries(true) == {""}
	shape.entries(false) == set()
	shape.entries(["a"]) == {null}
	shape.entries({"a": 1}) == {null}
}

test_durations if {
	shape.duration_ns("1h30m") == 5400000000000
	shape.duration_ns("1.5s") == 1500000000
	shape.duration_ns("2d") == 172800000000000
	every bad in ["", "1", "h", "-1s", "1 s", "0s", "0d", "1.5d", "1w", 1, null] {
		not shape.duration_ns(bad)
	}
}

test_times if {
	shape.time_ns("2025-06-30T14:30:00Z") == 1751293800000000000
	shape.time_ns("2025-06-30T16:30:00.5+02:00") == 1751293800500000000
	shape.time_ns(1751293800000000000) == 1751293800000000000
	every bad in ["", "2025-06-30", "2025-06-30 14:30:00Z", "2025-06-30t14:30:00Z", "now", 1751293800, 1751293800000, -1, null, 1751293800000000000.5] {
		not shape.time_ns(bad)
	}
}

test_names if {
	shape.names(["a", "b"])
	shape.names({"a"})
	shape.names([])
	every bad in ["a", [""], [1], {"a": "b"}, null] {
		not shape.names(bad)
	}
}
