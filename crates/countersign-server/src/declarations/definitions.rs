//! Which definitions get a name, and which name.
//!
//! Promises: what is used more than once, or in itself, is declared once; what is used once stands where it is used;
//! the same name never means two types; equal definitions of several tools are one.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::schema::{MAX_DEPTH, Side};
use super::text::type_name;
use super::types::{Field, Item, Member, Type, UNKNOWN, intersection, union};

/// A schema that can be referred to: a document's own, or one it refers to.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// What its author called it.
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) ty: Type,
}

/// Whose document it is.
#[derive(Debug, Clone)]
struct Owner {
    path: String,
    side: Side,
}

/// Everything that the documents of the shown tools define.
#[derive(Default)]
pub(super) struct Definitions {
    all: Vec<Definition>,
    owners: Vec<Owner>,
    roots: Vec<usize>,
}

impl Definitions {
    /// Adds a document; gives the number of what the document itself says.
    pub(super) fn add(&mut self, root: &serde_json::Value, side: Side, path: &str) -> usize {
        let id = self.all.len();
        let read = super::schema::read(root, side, id);
        self.owners.extend(read.iter().map(|_| Owner { path: path.to_owned(), side }));
        self.all.extend(read);
        self.roots.push(id);
        id
    }

    /// Settles what is named.
    pub(super) fn settle(mut self) -> Settled {
        self.cut_empty_circles();
        let classes = self.classes();
        let named = self.named(&classes);
        let names = self.names(&classes, &named);
        Settled { all: self.all, classes, names }
    }

    /// `type A = B; type B = A` says nothing, and TypeScript refuses it.
    fn cut_empty_circles(&mut self) {
        for id in 0..self.all.len() {
            if self.reaches_itself(id, Type::stands_for)
                && let Some(definition) = self.all.get_mut(id)
            {
                definition.ty = UNKNOWN;
            }
        }
    }

    fn reaches_itself(&self, id: usize, links: fn(&Type, &mut Vec<usize>)) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![id]);
        while let Some(at) = next.pop() {
            let mut linked = Vec::new();
            if let Some(definition) = self.all.get(at) {
                links(&definition.ty, &mut linked);
            }
            if linked.contains(&id) {
                return true;
            }
            next.extend(linked.into_iter().filter(|at| seen.insert(*at)));
        }
        false
    }

    /// For each definition the first one that equals it. Two are equal where they are called the same, say the same
    /// and refer to equals: classes are split until that holds.
    fn classes(&self) -> Vec<usize> {
        let links: Vec<Vec<usize>> = (0..self.all.len()).map(|id| self.links(id)).collect();
        let mut first: HashMap<(String, &str, Type), usize> = HashMap::new();
        let mut classes: Vec<usize> = Vec::with_capacity(self.all.len());
        for (id, d) in self.all.iter().enumerate() {
            let key = (type_name(&d.name), d.doc.as_str(), without_links(&d.ty));
            classes.push(*first.entry(key).or_insert(id));
        }
        loop {
            let mut first: HashMap<(usize, Vec<usize>), usize> = HashMap::new();
            let class = |id: &usize| classes.get(*id).copied().unwrap_or(*id);
            let split: Vec<usize> = links
                .iter()
                .enumerate()
                .map(|(id, links)| (id, (class(&id), links.iter().map(class).collect())))
                .map(|(id, key)| *first.entry(key).or_insert(id))
                .collect();
            if split == classes {
                return classes;
            }
            classes = split;
        }
    }

    /// The classes that are declared by name.
    fn named(&self, classes: &[usize]) -> HashSet<usize> {
        let class = |id: usize| classes.get(id).copied().unwrap_or(id);
        let roots: HashSet<usize> = self.roots.iter().copied().collect();
        let shown = self.reachable();
        let defined: HashSet<usize> = shown.difference(&roots).map(|id| class(*id)).collect();
        let mut uses: HashMap<usize, usize> = HashMap::new();
        self.roots.iter().for_each(|root| *uses.entry(class(*root)).or_default() += 1);
        for id in shown {
            // Equals are written once, except for what is only tools' own: that is written at each tool.
            if class(id) == id || !defined.contains(&class(id)) {
                self.links(id).iter().for_each(|m| *uses.entry(class(*m)).or_default() += 1);
            }
        }
        // An argument that is nothing but tools' arguments is best read where it stands.
        let often = |id: &usize| defined.contains(id) && uses.get(id).is_some_and(|n| *n > 1);
        (0..self.all.len())
            .filter(|id| class(*id) == *id)
            .filter(|id| often(id) || self.reaches_itself(*id, Type::mentions))
            .collect()
    }

    /// What the documents still speak of, now that empty circles are cut.
    fn reachable(&self) -> HashSet<usize> {
        let mut seen: HashSet<usize> = self.roots.iter().copied().collect();
        let mut next = self.roots.clone();
        while let Some(id) = next.pop() {
            next.extend(self.links(id).into_iter().filter(|id| seen.insert(*id)));
        }
        seen
    }

    fn links(&self, id: usize) -> Vec<usize> {
        let mut found = Vec::new();
        self.all.get(id).iter().for_each(|definition| definition.ty.mentions(&mut found));
        found
    }

    /// A name for each: its own where nobody else wants it, else with its tool's path before it.
    fn names(&self, classes: &[usize], named: &HashSet<usize>) -> BTreeMap<usize, String> {
        let mut wanted: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for id in (0..classes.len()).filter(|id| named.contains(id)) {
            if let Some(definition) = self.all.get(id) {
                wanted.entry(type_name(&definition.name)).or_default().push(id);
            }
        }
        let mut taken: HashSet<String> =
            wanted.iter().filter(|(_, ids)| ids.len() == 1).map(|(name, _)| name.clone()).collect();
        let mut names = BTreeMap::new();
        for (name, ids) in wanted {
            if let [only] = ids.as_slice() {
                names.insert(*only, name);
                continue;
            }
            for id in ids {
                let free = self.prefixed(id, &name).find(|name| !taken.contains(name));
                let free = free.unwrap_or_else(|| name.clone());
                taken.insert(free.clone());
                names.insert(id, free);
            }
        }
        names
    }

    /// Names with more and more before and after them, without end.
    fn prefixed(&self, id: usize, name: &str) -> impl Iterator<Item = String> {
        let owner = self.owners.get(id);
        let path = owner.map_or_else(String::new, |o| type_name(&o.path));
        let side = match owner.map(|o| o.side) {
            Some(Side::Output) => "Output",
            _ => "Input",
        };
        let (short, long) = (format!("{path}{name}"), format!("{path}{side}{name}"));
        let numbered = long.clone();
        [short, long].into_iter().chain((2_u64..).map(move |n| format!("{numbered}{n}")))
    }
}

/// Definitions of which it is known what is named.
pub(super) struct Settled {
    all: Vec<Definition>,
    classes: Vec<usize>,
    names: BTreeMap<usize, String>,
}

/// A type, and what its definition says of it.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) doc: String,
    pub(super) ty: Type,
}

impl Settled {
    /// A definition as it is shown where it is used: its name, or itself.
    pub(super) fn at(&self, id: usize) -> Shown {
        self.shown(id, 0)
    }

    /// A definition itself, named or not.
    pub(super) fn body(&self, id: usize) -> Shown {
        let class = self.classes.get(id).copied().unwrap_or(id);
        match self.all.get(class) {
            Some(d) => Shown { doc: d.doc.clone(), ty: self.written(&d.ty, 0) },
            None => Shown { doc: String::new(), ty: UNKNOWN },
        }
    }

    /// What is declared by name, by name.
    pub(super) fn declared(&self) -> Vec<(&str, Shown)> {
        let mut all: Vec<_> = self.names.iter().map(|(id, name)| (name.as_str(), self.body(*id))).collect();
        all.sort_by_key(|(name, _)| *name);
        all
    }

    fn shown(&self, id: usize, depth: usize) -> Shown {
        let class = self.classes.get(id).copied().unwrap_or(id);
        match (self.names.get(&class), self.all.get(class)) {
            // What is said of a named type is said where it is declared.
            (Some(name), _) => Shown { doc: String::new(), ty: Type::Named(name.clone()) },
            (None, Some(d)) => Shown { doc: d.doc.clone(), ty: self.written(&d.ty, depth) },
            (None, None) => Shown { doc: String::new(), ty: UNKNOWN },
        }
    }

    /// A type with its definitions named or put in their places. Those can stand in one another without end.
    fn written(&self, ty: &Type, depth: usize) -> Type {
        if depth > MAX_DEPTH {
            return UNKNOWN;
        }
        let deep = |ty: &Type| self.written(ty, depth + 1);
        match ty {
            Type::Word(_) | Type::Literal { .. } | Type::Named(_) => ty.clone(),
            Type::Definition(id) => self.shown(*id, depth + 1).ty,
            Type::Array(inner) => Type::Array(Box::new(deep(inner))),
            Type::Record(inner) => Type::Record(Box::new(deep(inner))),
            Type::Tuple { items, rest } => Type::Tuple {
                items: items.iter().map(|i| Item { presence: i.presence, ty: deep(&i.ty) }).collect(),
                rest: rest.as_ref().map(|rest| Box::new(deep(rest))),
            },
            Type::Object { fields, more } => {
                let fields = fields.iter().map(|f| {
                    let Shown { doc, ty } = self.documented(&f.doc, &f.ty, depth + 1);
                    Field { name: f.name.clone(), presence: f.presence, doc, ty }
                });
                Type::Object { fields: fields.collect(), more: *more }
            }
            Type::Union(members) => union(members.iter().map(|m| {
                let Shown { doc, ty } = self.documented(&m.doc, &m.ty, depth + 1);
                Member { doc, ty }
            })),
            Type::Intersection(parts) => intersection(parts.iter().map(deep)),
        }
    }

    /// What is put in place brings along what was said of it, unless the place says something of its own.
    fn documented(&self, doc: &str, ty: &Type, depth: usize) -> Shown {
        let own = match ty {
            Type::Definition(id) => self.shown(*id, depth),
            _ => Shown { doc: String::new(), ty: self.written(ty, depth) },
        };
        if doc.is_empty() { own } else { Shown { doc: doc.to_owned(), ty: own.ty } }
    }
}

/// A type whose references all look alike.
fn without_links(ty: &Type) -> Type {
    let bare = without_links;
    match ty {
        Type::Word(_) | Type::Literal { .. } | Type::Named(_) => ty.clone(),
        Type::Definition(_) => Type::Definition(0),
        Type::Array(inner) => Type::Array(Box::new(bare(inner))),
        Type::Record(inner) => Type::Record(Box::new(bare(inner))),
        Type::Tuple { items, rest } => Type::Tuple {
            items: items.iter().map(|i| Item { ty: bare(&i.ty), ..i.clone() }).collect(),
            rest: rest.as_ref().map(|rest| Box::new(bare(rest))),
        },
        Type::Object { fields, more } => {
            let fields = fields.iter().map(|f| Field { ty: bare(&f.ty), ..f.clone() }).collect();
            Type::Object { fields, more: *more }
        }
        Type::Union(members) => {
            Type::Union(members.iter().map(|m| Member { ty: bare(&m.ty), ..m.clone() }).collect())
        }
        Type::Intersection(parts) => Type::Intersection(parts.iter().map(bare).collect()),
    }
}
