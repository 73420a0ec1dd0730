// A GraphQL server with a query, a mutation, a field that fails beside its data, and a subscription. It prints its port, and
// ends with its input.
import { createServer } from 'node:http';
import { createSchema, createYoga } from 'graphql-yoga';

const orders = [{ id: '1', what: 'a bell' }];

const schema = createSchema({
  typeDefs: /* GraphQL */ `
    type Order { id: ID!, what: String!, price: Int }
    input NewOrder { what: String!, count: Int = 1 }
    type Query { orders(first: Int = 10): [Order!]!, order(id: ID!): Order }
    type Mutation { placeOrder(order: NewOrder!): Order! }
    type Subscription { placed: Order! }
  `,
  resolvers: {
    Query: {
      orders: (_, { first }) => orders.slice(0, first),
      order: (_, { id }) => orders.find((order) => order.id === id) ?? null,
    },
    Mutation: {
      placeOrder: (_, { order }) => {
        const placed = { id: String(orders.length + 1), what: order.what };
        orders.push(placed);
        return placed;
      },
    },
    Order: {
      price: () => {
        throw new Error('the price list is away');
      },
    },
  },
});

const server = createServer(createYoga({ schema, maskedErrors: false, logging: false }));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
