//! CPU operators on raw tensor memory, each row computed alone in a fixed order.
