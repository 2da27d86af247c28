//! Pods with certain labels are spread over an update (`scatterStrategy`): upstream's algorithm, term by term.

/// The order of the candidates, by their places in `order`, so that those that match a term are spread among the others.
///
/// `matches(term, candidate)` says whether a candidate matches; `all` is, for each term, how many pods of the set match it and how many
/// don't, candidates included.
pub(super) fn scatter(order: Vec<usize>, all: &[(usize, usize)], matches: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let count = |term: usize| order.iter().filter(|candidate| matches(term, **candidate)).count();
    let mut terms: Vec<(usize, usize)> = (0..all.len()).map(|term| (term, count(term))).collect();
    terms.retain(|(_, count)| *count > 0);
    terms.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    terms.into_iter().fold(order, |order, (term, _)| spread(order, all[term], &|candidate| matches(term, candidate)))
}

fn spread(
    order: Vec<usize>,
    (all_matched, all_others): (usize, usize),
    is_meant: &dyn Fn(usize) -> bool,
) -> Vec<usize> {
    let (mut matched, others): (Vec<usize>, Vec<usize>) = order.iter().copied().partition(|each| is_meant(*each));
    if matched.len() <= 1 || others.len() <= 1 {
        return order;
    }
    // One of them is the very last pod.
    let last = matched.pop();
    let (m, x) = (matched.len(), others.len());
    let all_matched = all_matched.saturating_sub(1).max(1);
    let (groups, first, of_matched, of_others) = if all_others * m >= x * all_matched {
        let groups = m.min(x);
        (groups, 0, rounded(m, groups), rounded(x, groups))
    } else {
        // Candidates are a part of all pods: the distances are those of all, and others go before.
        let groups = all_matched.min(all_others);
        let (of_matched, of_others) = (rounded(all_matched, groups).max(1), rounded(all_others, groups).max(1));
        let groups = (m / of_matched).min(x / of_others);
        (groups, x.saturating_sub(groups * of_others), of_matched, of_others)
    };
    let (mut matched, mut others) = (matched.into_iter(), others.into_iter());
    let mut spread: Vec<usize> = others.by_ref().take(first).collect();
    for _ in 0..groups {
        spread.extend(matched.by_ref().take(of_matched));
        spread.extend(others.by_ref().take(of_others));
    }
    spread.extend(matched);
    spread.extend(others);
    spread.extend(last);
    spread
}

/// The quotient, rounded to the nearest whole number, a half up.
const fn rounded(number: usize, by: usize) -> usize {
    match by {
        0 => 0,
        by => (2 * number + by) / (2 * by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are labels, `.` has none, `[AB]` both; the first `candidates` of these pods are to be updated.
    fn scattered(text: &str, terms: &str, candidates: usize) -> Vec<usize> {
        let mut pods: Vec<String> = Vec::new();
        let mut several: Option<String> = None;
        for letter in text.chars() {
            match (letter, &mut several) {
                ('[', _) => several = Some(String::new()),
                (']', _) => pods.extend(several.take()),
                (letter, Some(labels)) => labels.push(letter),
                (letter, None) => pods.push(letter.to_string()),
            }
        }
        let terms: Vec<char> = terms.chars().collect();
        let has = |term: usize, pod: usize| pods[pod].contains(terms[term]);
        let all = |term: usize| {
            let matched = (0..pods.len()).filter(|pod| has(term, *pod)).count();
            (matched, pods.len() - matched)
        };
        let all: Vec<(usize, usize)> = (0..terms.len()).map(all).collect();
        scatter((0..candidates).collect(), &all, &has)
    }

    #[test]
    fn one_term_spreads_as_upstreams_tests_say() {
        let vectors: &[(&str, &[usize])] = &[
            ("....AA", &[4, 0, 1, 2, 3, 5]),
            ("...AAA", &[3, 0, 1, 4, 2, 5]),
            ("...A..A", &[3, 0, 1, 2, 4, 5, 6]),
            ("......AAA", &[6, 0, 1, 2, 7, 3, 4, 5, 8]),
            ("..AAAA", &[2, 3, 0, 4, 1, 5]),
            ("..A.AAAAA", &[2, 4, 0, 5, 6, 1, 7, 3, 8]),
            (".A.A..AAA", &[1, 0, 3, 2, 6, 4, 7, 5, 8]),
            (".A", &[0, 1]),
            ("A", &[0]),
        ];
        for (pods, order) in vectors {
            assert_eq!(scattered(pods, "A", order.len()), *order, "{pods}");
        }
    }

    #[test]
    fn where_only_some_are_candidates_the_distances_are_those_of_all() {
        assert_eq!(scattered("....AAA", "A", 6), [0, 1, 4, 2, 3, 5]);
        assert_eq!(scattered("AA.......A", "A", 7), [2, 0, 3, 4, 5, 6, 1]);
    }

    #[test]
    fn several_terms_spread_one_after_the_other() {
        assert_eq!(scattered("BB..AA", "AB", 6), [0, 4, 2, 3, 5, 1]);
        assert_eq!(scattered("...B[AB]A", "AB", 6), [4, 0, 1, 2, 5, 3]);
        assert_eq!(scattered(".AABBCCCCC", "ABC", 10), [3, 1, 5, 0, 6, 7, 8, 9, 2, 4]);
    }
}
