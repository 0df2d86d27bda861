//! Arithmetic expressions: + - * / % ^, brackets, pi, e and some functions.
//!
//! sum     = product { ("+" | "-") product }
//! product = unary { ("*" | "/" | "%") unary }
//! unary   = ("-" | "+") unary | power
//! power   = atom [ "^" unary ]            so -2^2 is -4, and 2^3^2 is 2^(3^2)
//! atom    = number | name | name "(" sum { "," sum } ")" | "(" sum ")"

const MAX_DEPTH: usize = 200;

pub fn evaluate(text: &str) -> Result<f64, String> {
    let mut p = Parser { text: text.as_bytes(), at: 0, depth: 0 };
    let value = p.sum()?;
    p.space();
    if p.at < p.text.len() {
        return Err(p.expected("an operator or the end"));
    }
    if value.is_finite() {
        Ok(value)
    } else {
        Err("the result is not a finite number".into())
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn expected(&self, what: &str) -> String {
        format!("at position {}: expected {}", self.at + 1, what)
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> u8 {
        self.space();
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, want: u8) -> bool {
        let found = self.peek() == want;
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut left = self.product()?;
        loop {
            if self.take(b'+') {
                left += self.product()?;
            } else if self.take(b'-') {
                left -= self.product()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut left = self.unary()?;
        loop {
            let operator = self.peek();
            if !matches!(operator, b'*' | b'/' | b'%') {
                return Ok(left);
            }
            self.at += 1;
            let right = self.unary()?;
            if operator != b'*' && right == 0.0 {
                return Err("division by zero".into());
            }
            left = match operator {
                b'*' => left * right,
                b'/' => left / right,
                _ => left % right,
            };
        }
    }

    fn unary(&mut self) -> Result<f64, String> {
        // Every way back into the grammar comes through here, so this bounds the stack.
        if self.depth == MAX_DEPTH {
            return Err(format!("the expression is nested deeper than {}", MAX_DEPTH));
        }
        self.depth += 1;
        let value = if self.take(b'-') {
            self.unary().map(|v| -v)
        } else if self.take(b'+') {
            self.unary()
        } else {
            self.power()
        };
        self.depth -= 1;
        value
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        if self.take(b'^') {
            return Ok(base.powf(self.unary()?));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<f64, String> {
        match self.peek() {
            b'(' => {
                self.at += 1;
                let value = self.sum()?;
                if !self.take(b')') {
                    return Err(self.expected("')'"));
                }
                Ok(value)
            }
            b'0'..=b'9' | b'.' => self.number(),
            c if c.is_ascii_alphabetic() => self.name(),
            _ => Err(self.expected("a number, a name or '('")),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let from = self.at;
        let digits = |p: &mut Self| {
            while matches!(p.text.get(p.at), Some(b'0'..=b'9')) {
                p.at += 1;
            }
        };
        digits(self);
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            digits(self);
        }
        // An exponent needs digits: in "2e" the e is left for the caller to refuse.
        let mut mark = self.at;
        if matches!(self.text.get(mark), Some(b'e' | b'E')) {
            mark += 1;
            if matches!(self.text.get(mark), Some(b'+' | b'-')) {
                mark += 1;
            }
            if matches!(self.text.get(mark), Some(b'0'..=b'9')) {
                self.at = mark;
                digits(self);
            }
        }
        let written = std::str::from_utf8(&self.text[from..self.at]).unwrap_or("");
        written.parse().map_err(|_| format!("at position {}: {:?} is not a number", from + 1, written))
    }

    fn name(&mut self) -> Result<f64, String> {
        let from = self.at;
        while matches!(self.text.get(self.at), Some(c) if c.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(&self.text[from..self.at]).to_ascii_lowercase();
        if !self.take(b'(') {
            return match name.as_str() {
                "pi" => Ok(std::f64::consts::PI),
                "e" => Ok(std::f64::consts::E),
                _ => Err(format!("at position {}: unknown name {:?}, pi and e are known", from + 1, name)),
            };
        }
        let mut arguments = vec![self.sum()?];
        while self.take(b',') {
            arguments.push(self.sum()?);
        }
        if !self.take(b')') {
            return Err(self.expected("',' or ')'"));
        }
        apply(&name, &arguments).map_err(|why| format!("at position {}: {}", from + 1, why))
    }
}

fn apply(name: &str, arguments: &[f64]) -> Result<f64, String> {
    match name {
        "min" => return Ok(arguments.iter().copied().fold(f64::INFINITY, f64::min)),
        "max" => return Ok(arguments.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        _ => {}
    }
    let function: fn(f64) -> f64 = match name {
        "sqrt" => f64::sqrt,
        "abs" => f64::abs,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        "round" => f64::round,
        "exp" => f64::exp,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        _ => {
            return Err(format!(
                "unknown function {:?}, abs, ceil, cos, exp, floor, ln, log10, max, min, round, sin, sqrt and tan are known",
                name
            ))
        }
    };
    match arguments {
        [x] => Ok(function(*x)),
        _ => Err(format!("{} takes one argument, got {}", name, arguments.len())),
    }
}
