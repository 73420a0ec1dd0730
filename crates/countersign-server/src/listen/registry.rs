//! Which connections are open, and whose they are.
//!
//! Promise: nobody keeps people out. A connection belongs to nobody until a request on it proves a credential. Those that
//! belong to nobody give way, oldest first and from the busiest address first, whenever room is needed; one principal has a bound of
//! its own; and programs together leave a number of places to people who decide.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_sdk::{Principal, PrincipalId};
use tokio_util::sync::CancellationToken;

use crate::options::Limits;
use crate::refusal::Refusal;

/// Every open connection.
#[derive(Debug)]
pub(super) struct Connections {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Bounds {
    all: usize,
    programs: usize,
    of_one: usize,
    unproven_of_one_address: usize,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: HashMap<u64, Open>,
    /// Connections on which nobody proved a credential, by address. Numbers grow, so that the first is the oldest.
    unproven: HashMap<IpAddr, BTreeSet<u64>>,
    owned: HashMap<PrincipalId, usize>,
    /// How many belong to principals that do not decide.
    programs: usize,
}

#[derive(Debug)]
struct Open {
    address: IpAddr,
    cut: CancellationToken,
    owner: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    principal: PrincipalId,
    kind: OwnerKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerKind {
    /// A person who may decide.
    Person,
    /// An agent, a service or a worker.
    Program,
}

/// An open connection's place among the others. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Ticket(Place);

/// The same, as requests carry it: whatever keeps a request keeps no place.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    number: u64,
    cut: CancellationToken,
    connections: Arc<Connections>,
}

impl Connections {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let bounds = Bounds {
            all: limits.connections,
            programs: limits.connections.saturating_sub(limits.connections_for_people),
            of_one: limits.connections_per_principal,
            unproven_of_one_address: limits.unproven_connections_per_address,
        };
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// A place for a new connection, made free where connections without a credential hold it; nothing where every place
    /// belongs to somebody.
    pub(super) fn open(self: &Arc<Self>, address: IpAddr) -> Option<Ticket> {
        let cut = CancellationToken::new();
        let mut state = self.state();
        let of_address = state.unproven.get(&address).map_or(0, BTreeSet::len);
        if of_address >= self.bounds.unproven_of_one_address {
            state.cut_oldest_of(address);
        }
        if state.open.len() >= self.bounds.all && !state.cut_oldest_unproven() {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Open { address, cut: cut.clone(), owner: None });
        state.unproven.entry(address).or_default().insert(number);
        drop(state);
        Some(Ticket(Place { number, cut, connections: Arc::clone(self) }))
    }

    /// Closes the oldest connection on which nobody proved a credential: the system has no descriptors left.
    pub(super) fn make_room(&self) {
        self.state().cut_oldest_unproven();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cut_oldest_unproven(&mut self) -> bool {
        let busiest = self.unproven.iter().max_by_key(|(_, numbers)| numbers.len());
        let address = busiest.map(|(address, _)| *address);
        address.is_some_and(|address| self.cut_oldest_of(address))
    }

    fn cut_oldest_of(&mut self, address: IpAddr) -> bool {
        let oldest = self.unproven.get(&address).and_then(|numbers| numbers.first().copied());
        let Some(open) = oldest.and_then(|number| self.remove(number)) else { return false };
        open.cut.cancel();
        true
    }

    fn remove(&mut self, number: u64) -> Option<Open> {
        let mut open = self.open.remove(&number)?;
        match open.owner.take() {
            Some(owner) => self.disown(&owner),
            None => self.forget_unproven(open.address, number),
        }
        Some(open)
    }

    fn forget_unproven(&mut self, address: IpAddr, number: u64) {
        if let Some(numbers) = self.unproven.get_mut(&address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.unproven.remove(&address);
            }
        }
    }

    fn disown(&mut self, owner: &Owner) {
        self.programs -= usize::from(owner.kind == OwnerKind::Program);
        if let Some(count) = self.owned.get_mut(&owner.principal) {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&owner.principal);
            }
        }
    }
}

impl Ticket {
    /// What requests on the connection carry.
    pub(super) fn place(&self) -> Place {
        self.0.clone()
    }

    /// Completes when the connection has to give way.
    pub(super) async fn cut(&self) {
        self.0.cut.cancelled().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.connections.state().remove(self.0.number);
    }
}

impl Place {
    /// Says whose the connection is, now that a request on it proved it. A connection that others speak through, such as a
    /// proxy's, is the last one's.
    pub(crate) fn belongs_to(&self, principal: &Principal) -> Result<(), Refusal> {
        let Self { number, connections, .. } = self;
        let Bounds { programs, of_one, .. } = connections.bounds;
        let kind = if principal.may_decide() { OwnerKind::Person } else { OwnerKind::Program };
        let mut state = connections.state();
        let Some(open) = state.open.get(number) else { return Err(no_place()) };
        if open.owner.as_ref().is_some_and(|owner| owner.principal == principal.id && owner.kind == kind) {
            return Ok(());
        }
        let (address, before) = (open.address, open.owner.clone());
        // Its old owner's place is free before the new owner's is counted: both may be the same principal.
        match &before {
            Some(owner) => state.disown(owner),
            None => state.forget_unproven(address, *number),
        }
        let count = state.owned.get(&principal.id).copied().unwrap_or(0);
        let refused = match kind {
            _ if count >= of_one => Some(Refusal::new(
                429,
                "too_many_connections",
                format!(
                    "{of_one} connections of this principal are open, and it may not have more; close some"
                ),
            )),
            OwnerKind::Program if state.programs >= programs => Some(no_place()),
            _ => None,
        };
        let owner = match refused {
            None => Some(Owner { principal: principal.id.clone(), kind }),
            Some(_) => None,
        };
        match &owner {
            Some(owner) => {
                *state.owned.entry(owner.principal.clone()).or_default() += 1;
                state.programs += usize::from(kind == OwnerKind::Program);
            }
            None => drop(state.unproven.entry(address).or_default().insert(*number)),
        }
        if let Some(open) = state.open.get_mut(number) {
            open.owner = owner;
        }
        refused.map_or(Ok(()), |refused| Err(refused.closing()))
    }
}

fn no_place() -> Refusal {
    Refusal::new(503, "too_many_connections", "the server has as many connections as it takes; try again")
        .closing()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn connections(all: usize, for_people: usize, of_one: usize) -> Arc<Connections> {
        Connections::new(&Limits {
            connections: all,
            connections_for_people: for_people,
            connections_per_principal: of_one,
            ..Limits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_cut(ticket: &Ticket) -> bool {
        ticket.0.cut.is_cancelled()
    }

    #[test]
    fn a_connection_without_a_credential_gives_way_oldest_first_and_one_with_an_owner_never_does() {
        let connections = connections(3, 1, 9);
        let agent = Principal::agent("agent").unwrap();
        let (owned, old, young) = (
            connections.open(HERE).unwrap(),
            connections.open(HERE).unwrap(),
            connections.open(HERE).unwrap(),
        );
        owned.0.belongs_to(&agent).unwrap();
        let newest = connections.open(HERE).unwrap();
        assert!(is_cut(&old) && !is_cut(&owned) && !is_cut(&young) && !is_cut(&newest));
        assert!(old.0.belongs_to(&agent).is_err(), "its place is somebody else's by now");
        young.0.belongs_to(&Principal::approver("ann").unwrap()).unwrap();
        newest.0.belongs_to(&Principal::approver("ann").unwrap()).unwrap();
        assert!(connections.open(HERE).is_none(), "every place belongs to somebody");
        drop(young);
        assert!(connections.open(HERE).is_some());
    }

    #[test]
    fn programs_leave_the_last_places_to_people_and_are_told_so() {
        let connections = connections(4, 2, 9);
        let places: Vec<Ticket> = (0..3).map(|_| connections.open(HERE).unwrap()).collect();
        for (n, place) in places.iter().enumerate() {
            let agent = Principal::agent(&format!("agent-{n}")).unwrap();
            assert_eq!(place.0.belongs_to(&agent).is_ok(), n < 2, "{n}");
        }
        places[2].0.belongs_to(&Principal::approver("ann").unwrap()).unwrap();
        connections.open(HERE).unwrap().0.belongs_to(&Principal::admin("root").unwrap()).unwrap();
    }

    #[test]
    fn one_principal_has_its_own_bound_and_a_place_it_leaves_is_free_again() {
        let connections = connections(9, 1, 2);
        let (agent, other) = (Principal::agent("agent").unwrap(), Principal::agent("other").unwrap());
        let mut places: Vec<Ticket> = (0..3).map(|_| connections.open(HERE).unwrap()).collect();
        places[0].0.belongs_to(&agent).unwrap();
        places[1].0.belongs_to(&agent).unwrap();
        places[1].0.belongs_to(&agent).unwrap();
        assert!(places[2].0.belongs_to(&agent).is_err());
        places[2].0.belongs_to(&other).unwrap();
        places.remove(0);
        connections.open(HERE).unwrap().0.belongs_to(&agent).unwrap();
    }

    #[test]
    fn a_connection_that_several_speak_through_is_the_last_ones() {
        let connections = connections(9, 8, 1);
        let (agent, other) = (Principal::agent("agent").unwrap(), Principal::agent("other").unwrap());
        let (one, another) = (connections.open(HERE).unwrap(), connections.open(HERE).unwrap());
        one.0.belongs_to(&agent).unwrap();
        assert!(another.0.belongs_to(&other).is_err(), "programs have one place together");
        one.0.belongs_to(&Principal::approver("ann").unwrap()).unwrap();
        another.0.belongs_to(&other).unwrap();
    }

    #[test]
    fn an_address_gives_way_to_itself_at_its_bound_and_the_busiest_one_to_everybody() {
        let limits = Limits { connections: 4, unproven_connections_per_address: 3, ..Limits::default() };
        let connections = Connections::new(&limits);
        let quiet = connections.open(address(1)).unwrap();
        let busy: Vec<Ticket> = (0..4).map(|_| connections.open(address(2)).unwrap()).collect();
        assert!(is_cut(&busy[0]), "its own oldest");
        let newcomer = connections.open(address(3)).unwrap();
        assert!(is_cut(&busy[1]) && !is_cut(&busy[2]) && !is_cut(&quiet) && !is_cut(&newcomer));
    }

    #[test]
    fn where_the_system_has_no_descriptors_left_the_oldest_without_a_credential_goes() {
        let connections = connections(9, 1, 9);
        let (owned, old) = (connections.open(HERE).unwrap(), connections.open(HERE).unwrap());
        owned.0.belongs_to(&Principal::agent("agent").unwrap()).unwrap();
        connections.make_room();
        connections.make_room();
        assert!(is_cut(&old) && !is_cut(&owned));
    }
}
