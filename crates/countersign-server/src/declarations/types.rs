//! TypeScript types as values, so that they can be compared, simplified and laid out before they are text.
//!
//! Promise: [`union`] and [`intersection`] give the simplest type that says the same, and never more than
//! [`MAX_MEMBERS`] members.

/// The most members of a union, fields of an object or items of a tuple that are written out.
pub(super) const MAX_MEMBERS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Type {
    /// A type with a name of TypeScript's own.
    Word(&'static str),
    /// A literal, as TypeScript writes it.
    Literal {
        text: String,
        of: &'static str,
    },
    /// A definition that is not yet known to be named or written in place.
    Definition(usize),
    /// A type that is declared by name.
    Named(String),
    Array(Box<Type>),
    Tuple {
        items: Vec<Item>,
        rest: Option<Box<Type>>,
    },
    Record(Box<Type>),
    Object {
        fields: Vec<Field>,
        more: More,
    },
    Union(Vec<Member>),
    Intersection(Vec<Type>),
}

/// Whether an object may have properties of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum More {
    No,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) presence: Presence,
    pub(super) doc: String,
    pub(super) ty: Type,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) presence: Presence,
    pub(super) ty: Type,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Presence {
    Required,
    Optional,
}

/// One of several types, and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) doc: String,
    pub(super) ty: Type,
}

pub(super) const UNKNOWN: Type = Type::Word("unknown");
pub(super) const NEVER: Type = Type::Word("never");
pub(super) const NULL: Type = Type::Word("null");
/// An object without properties.
pub(super) const NOTHING: Type = Type::Object { fields: Vec::new(), more: More::No };

impl Type {
    /// The definitions it speaks of, in order, each as often as it does.
    pub(super) fn mentions(&self, found: &mut Vec<usize>) {
        match self {
            Self::Word(_) | Self::Literal { .. } | Self::Named(_) => {}
            Self::Definition(id) => found.push(*id),
            Self::Array(inner) | Self::Record(inner) => inner.mentions(found),
            Self::Tuple { items, rest } => {
                items.iter().for_each(|item| item.ty.mentions(found));
                rest.iter().for_each(|rest| rest.mentions(found));
            }
            Self::Object { fields, .. } => fields.iter().for_each(|field| field.ty.mentions(found)),
            Self::Union(members) => members.iter().for_each(|member| member.ty.mentions(found)),
            Self::Intersection(parts) => parts.iter().for_each(|part| part.mentions(found)),
        }
    }

    /// The definitions that it *is*, not merely contains: a type that is itself says nothing.
    pub(super) fn stands_for(&self, found: &mut Vec<usize>) {
        match self {
            Self::Definition(id) => found.push(*id),
            Self::Union(members) => members.iter().for_each(|member| member.ty.stands_for(found)),
            Self::Intersection(parts) => parts.iter().for_each(|part| part.stands_for(found)),
            _ => {}
        }
    }

    pub(super) fn or_null(self) -> Self {
        union([self, NULL].map(|ty| Member { doc: String::new(), ty }))
    }

    fn widened(self) -> Self {
        match self {
            Self::Literal { of, .. } => Self::Word(of),
            other => other,
        }
    }
}

/// Any of these: flat, each once, `null` last.
pub(super) fn union(members: impl IntoIterator<Item = Member>) -> Type {
    let mut flat: Vec<Member> = Vec::new();
    for member in members {
        match member.ty {
            Type::Union(inner) => inner.into_iter().for_each(|member| admit(&mut flat, member)),
            _ => admit(&mut flat, member),
        }
    }
    let has = |flat: &[Member], literal: &str| {
        flat.iter().any(|m| matches!(&m.ty, Type::Literal { text, .. } if text == literal))
    };
    if has(&flat, "true") && has(&flat, "false") {
        flat.retain(|m| !matches!(m.ty, Type::Literal { of: "boolean", .. }));
        admit(&mut flat, Member { doc: String::new(), ty: Type::Word("boolean") });
    }
    if flat.len() > MAX_MEMBERS {
        let all = std::mem::take(&mut flat);
        all.into_iter().for_each(|m| admit(&mut flat, Member { doc: String::new(), ty: m.ty.widened() }));
    }
    if flat.len() > MAX_MEMBERS || flat.iter().any(|m| m.ty == UNKNOWN) {
        return UNKNOWN;
    }
    flat.sort_by_key(|m| m.ty == NULL);
    match flat.len() {
        0 => NEVER,
        1 => flat.remove(0).ty,
        _ => Type::Union(flat),
    }
}

fn admit(flat: &mut Vec<Member>, member: Member) {
    if member.ty != NEVER && !flat.iter().any(|m| m.ty == member.ty) {
        flat.push(member);
    }
}

/// All of these at once: flat, each once, plain objects joined into one.
pub(super) fn intersection(parts: impl IntoIterator<Item = Type>) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    for part in parts {
        match part {
            Type::Intersection(inner) => inner.into_iter().for_each(|part| join(&mut flat, part)),
            _ => join(&mut flat, part),
        }
    }
    if flat.contains(&NEVER) {
        return NEVER;
    }
    match flat.len() {
        0 => UNKNOWN,
        1 => flat.remove(0),
        2..=MAX_MEMBERS => Type::Intersection(flat),
        _ => UNKNOWN,
    }
}

fn join(flat: &mut Vec<Type>, part: Type) {
    if part == UNKNOWN || flat.contains(&part) {
        return;
    }
    let Type::Object { fields: new, more: more_new } = part else {
        flat.push(part);
        return;
    };
    for known in flat.iter_mut() {
        let Type::Object { fields, more } = known else { continue };
        let clash = new.iter().any(|f| fields.iter().any(|g| g.name == f.name));
        if !clash && fields.len() + new.len() <= MAX_MEMBERS {
            fields.extend(new);
            fields.sort_by_key(|f| f.presence == Presence::Optional);
            if more_new == More::Unknown {
                *more = More::Unknown;
            }
            return;
        }
    }
    flat.push(Type::Object { fields: new, more: more_new });
}
