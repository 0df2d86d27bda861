//! calc: a plugin that computes: evaluate, statistics.
//!
//! Plain rustc, no crates: --target wasm32-unknown-unknown --crate-type cdylib.
//! Both tools take bare text (encoding "text:<arg>") and answer with JSON.

mod expression;
mod extism;

/// A finite number as JSON: the shortest digits that read back the same.
fn json_number(v: f64) -> String {
    // No minus zero, and exponents where plain digits would fill a screen.
    if v == 0.0 {
        "0".into()
    } else if v.abs() >= 1e21 || v.abs() < 1e-6 {
        format!("{:e}", v)
    } else {
        format!("{}", v)
    }
}

#[no_mangle]
pub extern "C" fn evaluate() -> i32 {
    extism::finish(match extism::input() {
        Some(text) => expression::evaluate(&text).map(|v| format!("{{\"value\":{}}}", json_number(v))),
        None => Err("the expression is not UTF-8".into()),
    })
}

#[no_mangle]
pub extern "C" fn statistics() -> i32 {
    extism::finish(match extism::input() {
        Some(text) => describe(&text),
        None => Err("the numbers are not UTF-8".into()),
    })
}

fn describe(text: &str) -> Result<String, String> {
    let mut all = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|w| !w.is_empty()) {
        match word.parse::<f64>() {
            Ok(v) if v.is_finite() => all.push(v),
            _ => {
                let shown: String = word.chars().take(40).collect();
                return Err(format!("item {}, {:?}, is not a finite number", all.len() + 1, shown));
            }
        }
    }
    if all.is_empty() {
        return Err("there are no numbers".into());
    }
    all.sort_by(f64::total_cmp);
    let n = all.len();
    let median = if n % 2 == 1 { all[n / 2] } else { all[n / 2 - 1] / 2.0 + all[n / 2] / 2.0 };

    // Welford's way keeps its digits where a sum of squares would lose them.
    let (mut mean, mut squares) = (0.0, 0.0);
    for (i, v) in all.iter().enumerate() {
        let step = v - mean;
        mean += step / (i + 1) as f64;
        squares += step * (v - mean);
    }
    let deviation = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
    if !mean.is_finite() || !deviation.is_finite() {
        return Err("the numbers are too large".into());
    }
    Ok(format!(
        "{{\"count\":{},\"min\":{},\"max\":{},\"mean\":{},\"median\":{},\"standard_deviation\":{}}}",
        n,
        json_number(all[0]),
        json_number(all[n - 1]),
        json_number(mean),
        json_number(median),
        json_number(deviation)
    ))
}
